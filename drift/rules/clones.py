"""SSH rules about nodes made from one image: what each should have made itself, and two have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from drift.among import Among
from drift.mesh import has_mesh, state_of
from drift.rules.rule import Fault, rule
from drift.rules.ssh import KEY
from facts.node import NodeState
from facts.ssh import SshState, fingerprint
from inventories.schema import NodeWanted

# Where a home is a node's own. One that is mounted from elsewhere has one key for all of them.
_LOCAL = frozenset(
    {"btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "rootfs", "tmpfs", "xfs"}
    | {"zfs"}
)


@rule("ssh.key-shared", "warning", between=True)
def key_shared(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """Two nodes have one private key, each in a home of its own."""
    if not has_mesh(wanted, among):
        return
    for key, others in _shared(found, among, _own_key):
        yield Fault(
            subject=KEY,
            found=f"{key}, which {_have(others)}",
            wanted="a key of this node's own",
            cause="one image was put on both, or the key was copied: whoever has it from one node "
            "is let in as the other, too, and from= keeps nobody out of either",
            fix=f"on all but one of them move {KEY} and {KEY}.pub away, and converge: such a node "
            "then makes a key of its own",
            fixable=False,
        )


def _own_key(state: SshState) -> Iterable[str]:
    account = state.account
    if account is None or account.public is None or account.filesystem not in _LOCAL:
        return ()
    return (fingerprint(account.public),)


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
