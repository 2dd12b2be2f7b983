"""SSH rules about newcomers: the name is free, and server and nodes reach each other."""

from collections.abc import Iterator

from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.nodes import Newcomer, Nodes, plain
from gpu_node.drift.engine.rule import At, Fault, check, unknown
from gpu_node.facts.node import NodeState
from gpu_node.facts.ssh.scans import Scan
from gpu_node.facts.ssh.state import fingerprint
from gpu_node.inventories.fields.addresses import is_loopback


@check("ssh.name-taken")
def name_taken(at: At) -> Iterator[Fault]:
    newcomer, subject = at.newcomer, f"name {at.nodes.name}"
    if newcomer is None:
        return
    if newcomer.here is None:
        why = "this machine's resolver gave no answer"
        fix = "look at this machine's DNS, then run again"
        yield Fault(subject, "unknown here", "an answer", why, fix, severity="warning")
    else:
        yield from _elsewhere(at.nodes, newcomer, "here", newcomer.here)
    yield from _on_itself(at.node, at.nodes, newcomer)
    for peer in at.nodes.others:
        if (state := at.of(peer.name)) is not None:
            resolved = addresses_of(at.nodes.name, state)
            if resolved is None:
                yield unknown(f"{subject} on {peer.name}", state, "ssh.names")
            else:
                yield from _elsewhere(at.nodes, newcomer, f"on {peer.name}", resolved)


def addresses_of(name: str, state: NodeState) -> tuple[str, ...] | None:
    """Return what a name resolves to on a machine; None where there was no answer."""
    return state.ssh.names.names.get(name) if state.ssh.names else None


def _on_itself(state: NodeState, nodes: Nodes, newcomer: Newcomer) -> Iterator[Fault]:
    """Judge the name on the server itself, where each of its own addresses is right.

    Debian has 127.0.1.1, which the mesh corrects.
    """
    resolved = addresses_of(nodes.name, state) or ()
    mine = {plain(address.address) for address in state.network.addresses or ()}
    first = plain(next(iter(resolved), ""))
    if first and first not in mine and not is_loopback(first):
        yield from _elsewhere(nodes, newcomer, "on itself", resolved)


def _elsewhere(
    nodes: Nodes, newcomer: Newcomer, where: str, resolved: tuple[str, ...]
) -> Iterator[Fault]:
    """Yield the fault of a name that leads somewhere else, by the first of its addresses."""
    first = next(iter(resolved), None)
    if first is not None and not newcomer.is_at(first):
        yield Fault(
            subject=f"name {nodes.name}",
            found=f"{first} {where}",
            wanted=newcomer.address,
            cause=f"{where} the name {nodes.name} resolves to {', '.join(resolved)}, not "
            f"{newcomer.address}",
            fix=f"give it another name, or correct DNS or the line in /etc/hosts {where}",
        )


@check("ssh.unreachable")
def unreachable(at: At) -> Iterator[Fault]:
    for peer in at.nodes.others:
        yield from way_to(peer.name, at.node, at.nodes)
        yield from way_from(peer.name, at.nodes)


def way_to(name: str, state: NodeState, nodes: Nodes) -> Iterator[Fault]:
    """Yield what is wrong with the way to a node, which may be down: that does not stop it."""
    newcomer, scans = nodes.newcomer, state.ssh.scans
    peer = next(each for each in nodes.peers if each.name == name)
    if newcomer is None or scans is None:
        return
    way, whom = f"way to {name}", f"{name} at {peer.address}"
    scan = scans.get(name)
    if name not in nodes.states and (scan is None or not scan.keys):
        why = f"{name} gave this machine no answer either"
        yield _warning(way, "no answer", why, "run again when it answers")
    else:
        yield from _seen(way, scan, newcomer.pinned.get(name, ()), whom)


def way_from(name: str, nodes: Nodes) -> Iterator[Fault]:
    """Yield what is wrong with the way from a node to the newcomer."""
    newcomer, state = nodes.newcomer, nodes.states.get(name)
    if newcomer is None or state is None:
        return
    way = f"way from {name}"
    if state.ssh.scans is None:
        fault = unknown(way, state, "ssh.scans")
        yield Fault(way, fault.found, fault.wanted, fault.cause, fault.fix)
    else:
        whom = f"{nodes.name} at {newcomer.address}"
        yield from _seen(way, state.ssh.scans.get(nodes.name), newcomer.host_keys, whom)


def _seen(way: str, scan: Scan | None, pinned: tuple[str, ...], whom: str) -> Iterator[Fault]:
    """Yield the fault of an sshd that is silent, or shows another key."""
    kinds = {key.split()[0] for key in pinned}
    same = [key for key in scan.keys if key.split()[0] in kinds] if scan else []
    wrong = [key for key in same if key not in pinned]
    if scan is None or not scan.keys:
        why = f"{whom}: {scan.why if scan else 'it was not asked'}"
        yield Fault(way, "no answer", "its sshd", why)
    elif not pinned:
        fix = "pin its host key: gpu-node host-key"
        yield _warning(way, _NO_KEY, f"no key of {whom} is pinned", fix)
    elif not same:
        why = f"{whom} shows no key of a pinned kind: it may be another machine"
        yield _warning(way, _NO_KEY, why, "compare its host keys with the pinned ones")
    elif wrong:
        known = next(key for key in pinned if key.split()[0] == wrong[0].split()[0])
        why = f"{whom} shows {fingerprint(wrong[0])} there, not the pinned {fingerprint(known)}"
        fix = "find out who answers: two machines with one address, or a machine in between"
        yield Fault(way, "another host key", "the pinned host key", why, fix)


_NO_KEY = "its host key is unknown"


def _warning(way: str, found: str, why: str, fix: str) -> Fault:
    severity: Severity = "warning"
    return Fault(way, found, "the pinned host key", why, fix, severity=severity)
