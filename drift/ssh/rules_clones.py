"""SSH rules about nodes made from one image: what each should have made itself, and two have."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.host.rules_name import same_machine
from gpu_node.drift.ranges import ranges
from gpu_node.drift.ssh.mesh import has_mesh, state_of
from gpu_node.drift.ssh.rules import KEY
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.file_systems import are_shared
from gpu_node.facts.ssh.state import SshState, fingerprint

_Names = dict[str, list[str]]


@check("ssh.key-shared")
def key_shared(at: At) -> Iterator[Fault]:
    if not has_mesh(at.wanted, at.nodes):
        return
    itself = same_machine(at.node, at.nodes)
    for key, having in _shared(_own_key(at.node.ssh), at.nodes, _by_own_key):
        others = [name for name in having if name not in itself]
        shared = {name: _is_one_file(at.node, name, at.nodes) for name in others}
        if copies := [name for name in others if shared[name] is False]:
            yield _copied_key(key, copies)
        if unclear := [name for name in others if shared[name] is None]:
            yield _unclear_key(key, unclear)


def _copied_key(key: str, others: list[str]) -> Fault:
    return Fault(
        subject=Path(KEY),
        found=f"{key}, which {_have(others)}",
        wanted="a separate key for this node",
        fix=f"on all but one of them move {KEY} and {KEY}.pub away, and run the deploy: such a "
        "node then creates a separate key",
    )


def _unclear_key(key: str, others: list[str]) -> Fault:
    """Both homes are on a network file system, and perhaps one and the same."""
    return Fault(
        subject=Path(KEY),
        found=f"{key}, which {_have(others)}, in homes that may be the same",
        wanted="a separate key for this node, or one home for all of them",
        cause="both homes are on network file systems; their mounts do not show whether they are "
        "the "
        "same: one shared home may have the key, but of two homes one has a copy",
        fix="compare `findmnt -T ~/.ssh` on the nodes: if the home is shared, keep the key, "
        "and mount the home by the same name everywhere; else move the copy away, and run the "
        "deploy",
    )


def _is_one_file(state: NodeState, name: str, nodes: Nodes) -> bool | None:
    theirs = state_of(name, state, nodes)
    if state.ssh.account is None or theirs is None or theirs.account is None:
        return None
    return are_shared(state.ssh.account.places, theirs.account.places)


def _own_key(state: SshState) -> Iterable[str]:
    account = state.account
    return () if account is None or account.public is None else (fingerprint(account.public),)


@check("ssh.host-key-shared")
def host_key_shared(at: At) -> Iterator[Fault]:
    itself = same_machine(at.node, at.nodes)
    keys: dict[tuple[str, ...], list[str]] = {}
    for key, others in _shared(_host_keys(at.node.ssh), at.nodes, _by_host_key):
        if names := tuple(name for name in others if name not in itself):
            keys.setdefault(names, []).append(key)
    for names, shared in keys.items():
        more = f" and {len(shared) - 1} more" if shared[1:] else ""
        both = {*names, at.nodes.name}
        having = [peer.name for peer in at.nodes.peers if peer.name in both]
        yield Fault(
            subject=Path("/etc/ssh"),
            found=f"{ranges(having)} have one host key: {shared[0]}{more}",
            wanted="separate host keys for each node",
        )


def _host_keys(state: SshState) -> Iterable[str]:
    """Return the keys of the sshd that this machine has reached; not known: those in the files."""
    keys = (state.reached,) if state.reached else state.host_keys or ()
    return map(fingerprint, keys)


def _by_own_key(nodes: Nodes) -> _Names:
    return _having(nodes, _own_key)


def _by_host_key(nodes: Nodes) -> _Names:
    return _having(nodes, _host_keys)


def _having(nodes: Nodes, keys_of: Callable[[SshState], Iterable[str]]) -> _Names:
    """Return the names of the nodes that have each key."""
    having: _Names = defaultdict(list)
    for peer in nodes.peers:
        state = nodes.states.get(peer.name)
        for key in set(keys_of(state.ssh)) if state is not None else ():
            having[key].append(peer.name)
    return having


def _shared(
    keys: Iterable[str], nodes: Nodes, having: Callable[[Nodes], _Names]
) -> Iterator[tuple[str, list[str]]]:
    """Yield each key of this node that others have, too, with their names."""
    for key in keys:
        names = nodes.once(having).get(key, ())
        if others := [name for name in names if name != nodes.name]:
            yield key, others


def _have(others: list[str]) -> str:
    return f"{ranges(others)} {'has' if len(others) == 1 else 'have'}, too"
