"""SSH rules about nodes made from one image: what each should have made itself, and two have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from drift.among import Among
from drift.mesh import has_mesh, state_of
from drift.rules.rule import Fault, rule
from drift.rules.ssh import KEY
from facts.file_systems import are_shared
from facts.node import NodeState
from facts.ssh import SshState, fingerprint
from inventories.schema import NodeWanted


@rule("ssh.key-shared", "warning", between=True)
def key_shared(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """Two nodes have one private key, and not because they have one home."""
    if not has_mesh(wanted, among):
        return
    for key, others in _shared(found, among, _own_key):
        shared = {name: _is_one_file(found, name, among) for name in others}
        if copies := [name for name in others if shared[name] is False]:
            yield _copied_key(key, copies)
        if unclear := [name for name in others if shared[name] is None]:
            yield _unclear_key(key, unclear)


def _copied_key(key: str, others: list[str]) -> Fault:
    return Fault(
        subject=KEY,
        found=f"{key}, which {_have(others)}",
        wanted="a key of this node's own",
        cause="one image was put on both, or the key was copied: whoever has it from one node is "
        "let in as the other, too, and from= keeps nobody out of either",
        fix=f"on all but one of them move {KEY} and {KEY}.pub away, and converge: such a node then "
        "makes a key of its own",
        fixable=False,
    )


def _unclear_key(key: str, others: list[str]) -> Fault:
    """Both homes are on a network file system, and perhaps one and the same."""
    return Fault(
        subject=KEY,
        found=f"{key}, which {_have(others)}, in homes that may be one",
        wanted="a key of this node's own, or one home for all of them",
        cause="both homes are on network file systems; their mounts do not tell whether they are "
        "one: in one home the key is right, and of two homes one has a copy",
        fix="compare `findmnt -T ~/.ssh` on the nodes: where the home is one, leave the key, and "
        "mount it by the same name everywhere; else move the copy away, and converge",
        fixable=False,
    )


def _is_one_file(found: NodeState, name: str, among: Among) -> bool | None:
    theirs = state_of(name, found, among)
    if found.ssh.account is None or theirs is None or theirs.account is None:
        return None
    return are_shared(found.ssh.account.places, theirs.account.places)


def _own_key(state: SshState) -> Iterable[str]:
    account = state.account
    return () if account is None or account.public is None else (fingerprint(account.public),)


@rule("ssh.host-key-shared", "warning", between=True)
def host_key_shared(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """Two nodes have one host key."""
    if not has_mesh(wanted, among):
        return
    for key, others in _shared(found, among, lambda state: map(fingerprint, state.host_keys or ())):
        yield Fault(
            subject="/etc/ssh",
            found=f"host key {key}, which {_have(others)}",
            wanted="host keys of this node's own",
            cause="one image was put on both, or both names are of one machine: ssh cannot tell "
            "one from the other, and whoever has the key of one can pose as the other",
            fix="on all but one of them: rm /etc/ssh/ssh_host_*, ssh-keygen -A, restart sshd; then "
            "gpu-node host-key INVENTORY NODE shows the new key, --accept pins it, and converge",
            fixable=False,
        )


def _shared(
    found: NodeState, among: Among, keys_of: Callable[[SshState], Iterable[str]]
) -> Iterator[tuple[str, list[str]]]:
    """Yield each key of this node that others have, too, with their names."""
    theirs = {
        peer.name: set(keys_of(state))
        for peer in among.others
        if (state := state_of(peer.name, found, among)) is not None
    }
    for key in keys_of(found.ssh):
        if others := [name for name, keys in theirs.items() if key in keys]:
            yield key, others


def _have(others: list[str]) -> str:
    return f"{', '.join(others)} {'has' if len(others) == 1 else 'have'}, too"
