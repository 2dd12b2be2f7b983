"""Rules about ports: each node accepts the connections of the others, wherever a job listens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.facts.ask.via import SSH
from gpu_node.facts.ports.state import Chain, Outcome, PortsState

_ENDED = {
    "dropped": "dropped without an answer",
    "rejected": "rejected (no route to host)",
    "reset": "refused, although it listens",
}
_THIRDS = ("low", "middle", "high")
_ON_THE_WAY = (
    "not on these nodes, which have no rule: something on the way drops or rejects it, such as a "
    "router, a switch's ACL or a cloud's security group"
)


@check("ports.blocked")
def blocked(at: At[PortsState]) -> Iterator[Fault]:
    failed = at.nodes.once(_failed).get(at.nodes.name, {})
    alike = gathered((tuple(each), name) for name, each in failed.items())
    first, last = at.here.first, at.here.last
    others = [name for name in at.nodes.states if name != at.nodes.name]
    for outcomes, names in alike.items():
        sources = {name: at.nodes.states[name].ports for name in names}
        cause, fix = _blame(at.nodes.name, at.here, sources)
        everyone = len(names) > 1 and {*names} == {*others}
        yield Fault(
            subject=f"ports from {'all other nodes' if everyone else ranges(names)}",
            found=f"{_ended(outcomes)} of {first}-{last}",
            wanted=f"connections accepted in {first}-{last}",
            cause=cause,
            fix=fix,
        )


def _failed(nodes: Nodes) -> dict[str, dict[str, tuple[Outcome, ...]]]:
    """Return how connections to each node ended, by the node that tried, where one failed."""
    failed: dict[str, dict[str, tuple[Outcome, ...]]] = {}
    for name, state in nodes.states.items():
        for peer, tried in (state.ports.tried or {}).items():
            if any(each in _ENDED for each in tried.ports):
                failed.setdefault(peer, {})[name] = tried.ports
    return failed


def _ended(outcomes: Sequence[Outcome]) -> str:
    thirds = gathered(pair for pair in zip(outcomes, _THIRDS, strict=True) if pair[0] in _ENDED)
    return "; ".join(
        f"{_ENDED[how]}: "
        + ("every port tried" if len(some) == 3 else f"the {' and the '.join(some)} port tried")
        for how, some in thirds.items()
    )


def _blame(name: str, here: PortsState, sources: dict[str, PortsState]) -> tuple[str, str]:
    """Return who blocks connections to a node from some sources, and the command against it."""
    addresses = [each.address for each in sources.values()]
    if tool := _tool(here):
        zone = _zone(here)
        where = f" (zone {zone} of {here.interface})" if tool == "firewalld" and zone else ""
        return f"{tool}{where} is active on {name}", _allow(tool, addresses)
    if chains := _chains(here, "input"):
        return f"{_named(chains[0])} filters on {name}", _accept(chains[0], "saddr", addresses)
    for source, state in sources.items():
        if chains := _chains(state, "output"):
            command = _accept(chains[0], "daddr", [here.address])
            return f"{_named(chains[0])} filters on {source}", f"on {source}: {command}"
    closed = [each for each, state in {name: here, **sources}.items() if _is_closed(state)]
    if closed:
        return (
            f"the rules of {ranges(closed)} are not readable without root",
            f"as root on {name}, see nft list ruleset and iptables -S, and accept what comes from "
            f"{', '.join(addresses)}",
        )
    listed = ", ".join([here.address, *addresses])
    return _ON_THE_WAY, f"there, let TCP {here.first}-{here.last} pass between {listed}"


def _tool(here: PortsState) -> str:
    return here.firewall.tools[0] if here.firewall and here.firewall.tools else ""


def _zone(here: PortsState) -> str:
    zones = here.firewall.zones if here.firewall else {}
    return zones.get(here.interface) or zones.get("-", "")


def _is_closed(state: PortsState) -> bool:
    return state.firewall is None or state.firewall.closed


def _chains(state: PortsState, hook: str) -> list[Chain]:
    """Return the chains of a hook that see packets of the address."""
    families = ("ip6", "inet") if ":" in state.address else ("ip", "inet")
    chains = state.firewall.chains if state.firewall else ()
    return [each for each in chains if each.hook == hook and each.family in families]


def _is_iptables(chain: Chain) -> bool:
    return chain.table == "filter" and chain.name.isupper() and chain.family != "inet"


def _named(chain: Chain) -> str:
    if _is_iptables(chain):
        return f"the chain {chain.name} of {chain.family}tables"
    return f"the nft chain {chain.family} {chain.table} {chain.name}"


def _allow(tool: str, addresses: Sequence[str]) -> str:
    if tool == "ufw":
        return " && ".join(f"ufw allow from {each}" for each in addresses)
    sources = " ".join(f"--add-source={each}" for each in addresses)
    return f"firewall-cmd --permanent --zone=trusted {sources} && firewall-cmd --reload"


def _accept(chain: Chain, end: str, addresses: Sequence[str]) -> str:
    """Return the command that lets a chain accept what comes from, or goes to, some addresses."""
    if _is_iptables(chain):
        option = "-s" if end == "saddr" else "-d"
        command = f"{chain.family}tables -I {chain.name} {option} {','.join(addresses)} -j ACCEPT"
        return f"{command}; then save it where {chain.family}tables is started from"
    family = "ip6" if ":" in addresses[0] else "ip"
    place = f"{chain.family} {chain.table} {chain.name}"
    command = f"nft insert rule {place} {family} {end} '{{ {', '.join(addresses)} }}' accept"
    return f"{command}; then write it into the file that is loaded at boot"


@check("ports.untried")
def untried(at: At[PortsState]) -> Iterator[Fault]:
    whys = {f"not tried: {at.here.untried}"} if at.here.untried else set()
    unknown = gathered((each.why, name) for name, each in (at.here.tried or {}).items() if each.why)
    whys |= {f"to {ranges(names)}: {why}" for why, names in unknown.items()}
    if at.nodes.via != SSH and at.nodes.name == at.nodes.once(_first):
        whys.add(f"not tried: the answers came by {at.nodes.via}")
    if whys:
        yield Fault("ports", "; ".join(sorted(whys)), "connections tried between the nodes")


def _first(nodes: Nodes) -> str:
    """Return the first of two or more nodes for jobs that were asked."""
    without = {peer.name for peer in nodes.peers if peer.gpus == 0}
    names = [name for name in nodes.states if name not in without]
    return names[0] if len(names) > 1 else ""
