"""Host rules about names: each one is a machine of its own, which knows its name."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpu_node.drift.engine.nodes import Nodes, plain
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Thing
from gpu_node.drift.ranges import ranges
from gpu_node.drift.ssh.rules_mesh import unresolved
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import are_one
from gpu_node.inventories.fields.addresses import is_address, is_loopback
from gpu_node.inventories.wanted import NodeWanted

_GLOO = "GLOO_SOCKET_IFNAME"


@check("host.name")
def name(at: At) -> Iterator[Fault]:
    own = at.node.host.name
    if own is None or not (at.nodes.others or at.newcomer):
        return
    # The mesh gives a newcomer the lines of /etc/hosts that it lacks.
    listens = "" if at.newcomer else _listens_on(at.node)
    is_same = _short(own.name) == _short(at.nodes.name)
    if listens and not (at.node.env.launcher or {}).get(_GLOO):
        # One finding for one cause: the same name is judged with those of all other nodes.
        known = {each.peer for each in unresolved(at.node, at.wanted, at.nodes)}
        if not (is_same and at.nodes.name in known):
            yield _on_loopback(own.name, listens, _address(at.node, at.wanted, at.nodes))
            return
    # A machine with two names is not called by both of them.
    if not is_same and len(same_machine(at.node, at.nodes)) <= 1:
        yield Fault(
            subject=Thing("host name"),
            found=own.name,
            wanted=at.nodes.name,
            cause="logs of jobs, and errors of NCCL and torch, name the node differently than the "
            "inventory; nothing else depends on it",
            fix=f"hostnamectl set-hostname {at.nodes.name}, or name it so in the inventory",
        )


def _on_loopback(name: str, listens: str, address: str) -> Fault:
    """Return the finding; `address` is an IP address of the node, empty where none is known."""
    such_as = f", such as {address}" if address else ""
    line = f"'{address} {name}'" if address else f"with an address of this node and {name}"
    interface = f"the interface of {address}" if address else "the interface to the others"
    return Fault(
        subject=Thing("host name"),
        found=f"{name} {listens}",
        wanted=f"an address of this node{such_as}",
        fix=f"write a line {line} into /etc/hosts, and remove other lines of this name there; or "
        f"export {_GLOO} with {interface}",
        severity="error",
    )


def _address(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> str:
    """Return an IP address of the node for the others: the inventory's, else one of its routes.

    The inventory may have a host name instead, which a line of /etc/hosts cannot have.
    """
    routes = state.network.routes or ()
    known = (
        wanted.address,
        *(route.address for route in routes if route.node == nodes.name and route.local),
        *(route.source for route in routes if route.node != nodes.name and not route.local),
    )
    usable = (each for each in known if each and is_address(each) and not is_loopback(each))
    return next(usable, "")


def _short(text: str) -> str:
    return text.partition(".")[0].lower()


def _listens_on(state: NodeState) -> str:
    """Return why gloo would listen on loopback; empty where it does not, or that is unknown.

    It takes the first address of the name that it can bind, else loopback: createDefaultDevice of
    torch/csrc/distributed/c10d/ProcessGroupGloo.cpp.
    """
    own = state.host.name
    if own is None or own.addresses is None or state.network.addresses is None:
        return ""
    if not own.addresses:
        return "does not resolve"
    mine = {plain(address.address) for address in state.network.addresses}
    usable = [
        address for address in own.addresses if is_loopback(address) or plain(address) in mine
    ]
    if usable and not is_loopback(usable[0]):
        return ""
    resolved = ", ".join(own.addresses)
    return f"means {resolved}" if usable else f"means {resolved}, which this node does not have"


_Machines = dict[tuple[str, str], list[str]]


@check("host.one-machine")
def one_machine(at: At) -> Iterator[Fault]:
    names = same_machine(at.node, at.nodes)
    if len(names) > 1:
        yield Fault(
            subject=Thing("inventory"),
            found=are_one(ranges(names)),
            wanted="a machine for each name",
        )


def same_machine(state: NodeState, nodes: Nodes) -> Sequence[str]:
    """Return the names of the inventory that are this node's machine, its own among them.

    Containers of one machine have its boot, but each another host name.
    """
    identity = _identity(state)
    alike = nodes.once(_machines).get(identity, ()) if all(identity) else ()
    names = {*alike, nodes.name}
    return [peer.name for peer in nodes.peers if peer.name in names]


def _machines(nodes: Nodes) -> _Machines:
    machines: _Machines = defaultdict(list)
    for peer in nodes.peers:
        if (state := nodes.states.get(peer.name)) is not None:
            machines[_identity(state)].append(peer.name)
    return machines


def _identity(state: NodeState) -> tuple[str, str]:
    own = state.host.name
    return (own.name, own.boot) if own else ("", "")
