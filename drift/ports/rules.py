"""Rules about ports: each node accepts the connections of the others, wherever a job listens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.facts.ask.via import SSH
from gpu_node.facts.ports.state import Firewall, Outcome, PortsState

_ENDED = {
    "dropped": "dropped without an answer",
    "rejected": "rejected (no route to host)",
    "unreachable": "rejected (network is unreachable)",
    "prohibited": "rejected (permission denied)",
    "reset": "refused, although it listens",
}
_BY_DEPLOY = "set firewall.trust_nodes in the inventory, and gpu-node deploy repairs it"
_THIRDS = ("low", "middle", "high")
_ON_THE_WAY = (
    "not on these nodes, which have no rule: something on the way drops or rejects it, such as a "
    "router, a switch's ACL or a cloud's security group, or no network connects their interfaces"
)


@check("ports.blocked")
def blocked(at: At[PortsState]) -> Iterator[Fault]:
    failed = at.nodes.once(_failed).get(at.nodes.name, [])
    first, last = at.here.first, at.here.last
    for outcomes, names in gathered(failed).items():
        is_all = 1 < len(names) == len(at.nodes.states.keys() - {at.nodes.name})
        cause, fix = _blame(at, {name: at.nodes.states[name].ports for name in names})
        by_firewalld = _firewall(at.here).tools == ("firewalld",)
        is_trusted = at.wanted.firewall is not None and at.wanted.firewall.trust_nodes is True
        yield Fault(
            subject=f"ports from {'all other nodes' if is_all else ranges(names)}",
            found=f"{_ended(outcomes)} of {first}-{last}",
            wanted=f"connections accepted in {first}-{last}",
            cause=cause,
            fix=fix,
            fixable=by_firewalld and is_trusted,
            deploy=_BY_DEPLOY if by_firewalld and not is_trusted else "",
        )


def _failed(nodes: Nodes) -> dict[str, list[tuple[tuple[Outcome, ...], str]]]:
    """Return how connections to each node ended, and which node tried, where one failed."""
    return gathered(
        (peer, (tried.ports, name))
        for name, state in nodes.states.items()
        for peer, tried in (state.ports.tried or {}).items()
        if not _ENDED.keys().isdisjoint(tried.ports)
    )


def _ended(outcomes: Sequence[Outcome]) -> str:
    thirds = gathered(pair for pair in zip(outcomes, _THIRDS, strict=True) if pair[0] in _ENDED)
    named = {how: f"the {' and the '.join(some)} port" for how, some in thirds.items()}
    named |= {how: "every port" for how, some in thirds.items() if len(some) == len(_THIRDS)}
    return "; ".join(f"{_ENDED[how]}: {ports} tried" for how, ports in named.items())


def _blame(at: At[PortsState], sources: Mapping[str, PortsState]) -> tuple[str, str]:
    """Return what blocks connections from some sources, and the command that lets them pass."""
    addresses = [each.address for each in sources.values()]
    if rule := _rule(at.here, "input", addresses):
        return f"{rule[0]} is active on {at.nodes.name}", rule[1]
    for source, state in sources.items():
        if rule := _rule(state, "output", [at.here.address]):
            return f"{rule[0]} is active on {source}", f"on {source}: {rule[1]}"
    states = {at.nodes.name: at.here, **sources}
    if closed := [name for name, each in states.items() if _firewall(each).closed]:
        return (
            f"the rules of {ranges(closed)} cannot be read: there is no root, or no nft",
            "as root there, see nft list ruleset and iptables -S, and accept what comes from "
            + ", ".join(addresses),
        )
    passed = f"let TCP {at.here.first}-{at.here.last} pass between"
    return _ON_THE_WAY, f"there, {passed} {', '.join([at.here.address, *addresses])}"


def _firewall(state: PortsState) -> Firewall:
    return state.firewall or Firewall(closed=True)


def _rule(
    state: PortsState, hook: Literal["input", "output"], addresses: Sequence[str]
) -> tuple[str, str] | None:
    """Return what filters at a hook, and the command that accepts some addresses; None: nothing."""
    firewall, version = _firewall(state), "ip6" if ":" in state.address else "ip"
    if hook == "input" and "ufw" in firewall.tools:
        return "ufw", " && ".join(f"ufw allow from {each}" for each in addresses)
    if hook == "input" and "firewalld" in firewall.tools:
        zone = firewall.zones.get(state.interface) or firewall.zones.get("-") or "unknown"
        # The zone keeps what else is in it. Now and for the next boot: a reload would drop what
        # docker and others have added.
        family = "ipv6" if version == "ip6" else "ipv4"
        rules = (
            f'--add-rich-rule=\'rule family="{family}" source address="{each}" accept\''
            for each in addresses
        )
        added = " ".join([f"--zone={zone}", *rules])
        command = f"firewall-cmd {added} && firewall-cmd --permanent {added}"
        return f"firewalld (zone {zone} of {state.interface})", command
    chains = firewall.input if hook == "input" else firewall.output
    found = [each for each in chains if each.split()[0] in (version, "inet")]
    if not found:
        return None
    # Each of them sees a packet that another one accepts.
    option, end = ("-s", "saddr") if hook == "input" else ("-d", "daddr")
    names, commands = [], []
    for chain in found:
        if chain == f"{version} filter {hook.upper()}":
            names.append(f"the chain {hook.upper()} of {version}tables")
            words = f"{option} {','.join(addresses)} -j ACCEPT"
            commands.append(f"{version}tables -I {hook.upper()} {words}")
        else:
            names.append(f"the nft chain {chain}")
            words = f"{version} {end} '{{ {', '.join(addresses)} }}' accept"
            commands.append(f"nft insert rule {chain} {words}")
    return " or ".join(names), f"{' && '.join(commands)}; then save the rules for the next boot"


def others(nodes: Nodes) -> list[str]:
    """Return the addresses for jobs of the other nodes, as far as they are known."""
    states = {name: each for name, each in nodes.states.items() if name != nodes.name}
    return sorted({each.ports.address for each in states.values()} - {""})


def former_rules(here: PortsState, nodes: Nodes) -> list[str]:
    """Return our rules for addresses that no node has; none while that of a node is unknown."""
    there = {peer.name for peer in nodes.peers if peer.gpus != 0} - {nodes.name}
    addresses = {nodes.states[name].ports.address for name in there & nodes.states.keys()}
    if not there <= nodes.states.keys() or "" in addresses:
        return []
    return [each for each in here.trusted or () if each.split()[1] not in addresses]


@check("ports.former-node")
def former_node(at: At[PortsState]) -> Iterator[Fault]:
    if rules := former_rules(at.here, at.nodes):
        addresses = ", ".join(dict.fromkeys(each.split()[1] for each in rules))
        yield Fault("firewalld", f"accepts {addresses}", "the addresses of the nodes alone")


@check("ports.untried")
def untried(at: At[PortsState]) -> Iterator[Fault]:
    whys = [f"not tried: {at.here.untried}"] if at.here.untried else []
    unknown = gathered((each.why, name) for name, each in (at.here.tried or {}).items() if each.why)
    whys += [f"to {ranges(names)}: {why}" for why, names in unknown.items()]
    if at.nodes.via != SSH and at.nodes.name == at.nodes.once(_first):
        whys.append(f"not tried: the answers came by {at.nodes.via}")
    if whys:
        yield Fault("ports", "; ".join(whys), "connections tried between the nodes")


def _first(nodes: Nodes) -> str:
    """Return the first of two or more nodes for jobs that were asked."""
    without = {peer.name for peer in nodes.peers if peer.gpus == 0}
    names = [name for name in nodes.states if name not in without]
    return names[0] if len(names) > 1 else ""
