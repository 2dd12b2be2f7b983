"""Host rule about newcomers: a server that is a node already, a copy of one, or at its address."""

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Newcomer, plain
from gpu_node.drift.engine.rule import At, Fault, check, unknown
from gpu_node.drift.network.interfaces import is_never
from gpu_node.facts.network.state import NetworkState
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import Peer

SUBJECT = "a node already"
# systemd-machine-id-setup takes the id of D-Bus, where that has one.
_NEW_ID = "rm -f /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id-setup; then reboot"


@check("host.node-already")
def node_already(at: At) -> Iterator[Fault]:
    newcomer = at.newcomer
    for peer in at.nodes.others if newcomer else ():
        state = at.of(peer.name)
        if newcomer is not None and state is not None:
            yield from _twin(at.node, peer, state, newcomer)


def _twin(node: NodeState, peer: Peer, state: NodeState, newcomer: Newcomer) -> Iterator[Fault]:
    name, own_id = peer.name, node.host.machine_id
    same_id = bool(own_id) and own_id == state.host.machine_id
    own_gpus, gpus = node.driver.uuids or (), state.driver.uuids or ()
    shared = sorted({*own_gpus} & {*gpus})
    address = _shared(node, state, peer, newcomer)
    if shared or (same_id and address):
        by = [f"GPU {shared[0]}"] if shared else []
        by += [f"machine-id {own_id}"] if same_id else []
        by += [f"address {address}"] if address else []
        why = f"they have the same {', '.join(by)}"
        fix = f"onboard it as {name}; or first: gpu-node remove {name}"
        yield _fault(f"it is {name}", why, fix)
    elif same_id and not (own_gpus and gpus):
        why = f"the machine-id is {name}'s, at another address, and the GPUs cannot be compared"
        fix = f"if it is a copy of its disk: {_NEW_ID}; if it is {name}: onboard it as {name}"
        yield _fault(f"{name}, or a clone of it", why, fix)
    elif same_id:
        why = f"the machine-id is {name}'s, with other GPUs and addresses: a copy of its disk"
        yield _fault(f"a clone of {name}", why, _NEW_ID)
    elif address:
        why = f"{address} is {name}'s, too: the first one to answer is taken for both"
        yield _fault(f"the address of {name}", why, "give one of them another")
    elif section := _unread(state):
        yield unknown(f"{SUBJECT}: {name}", state, section)


def _fault(found: str, why: str, fix: str) -> Fault:
    return Fault(SUBJECT, found, "a machine that is no node", why, fix)


def _unread(state: NodeState) -> str:
    """Return the section without which a node cannot be compared; empty where all were read."""
    if state.host.machine_id is None:
        return "host.machine-id"
    if state.driver.uuids is None:
        return "driver.uuids"
    return "network.addresses" if state.network.addresses is None else ""


def _shared(node: NodeState, state: NodeState, peer: Peer, newcomer: Newcomer) -> str:
    """Return the address that leads to both; empty where there is none.

    Those that each machine has for itself alone, for containers or its board, are often the same.
    """
    if plain(peer.address) in _own(node.network):
        return peer.address
    return next((each for each in _own(state.network) if newcomer.is_at(each)), "")


def _own(network: NetworkState) -> list[str]:
    return [
        plain(address.address)
        for address in network.addresses or ()
        if address.scope == "global" and not is_never(address.interface)
    ]
