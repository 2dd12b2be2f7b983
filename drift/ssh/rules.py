"""SSH rules about keys: each node has its own, lets the others' in, and knows their hosts."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TypedDict

from drift.among import Among
from drift.mesh import authorized_line, comes_from, has_mesh, lets_in, state_of
from drift.rules.rule import Fault, rule
from drift.ssh_settings import (
    elsewhere,
    has_key,
    known_hosts_elsewhere,
    lets_in_already,
    reads_home,
)
from facts.cluster import Peer
from facts.mesh import KNOWN_HOSTS, lookups
from facts.node import NodeState
from facts.shm import Mode
from facts.ssh import Account, SshState, fingerprint
from inventories.schema import NodeWanted


class _Way(TypedDict):
    """The part of a fault that is about its repair."""

    fix: str
    fixable: bool


KEY = "~/.ssh/id_ed25519"
AUTHORIZED = "~/.ssh/authorized_keys"
CONVERGE = "converge this node and that one in one run"
# What may be open to others at most: sshd's StrictModes, and ssh about a private key.
_PATHS = {"home": "", "folder": "/.ssh", "authorized": "/.ssh/authorized_keys"}
_CLOSED = {"home": 0o022, "folder": 0o022, "authorized": 0o022, "key": 0o077}


@rule("ssh.permissions", "error", between=True)
def permissions(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """sshd or ssh refuses a key because of who may write to its file, or read it."""
    account = found.ssh.account
    if account is None or not has_mesh(wanted, among):
        return
    for name, mode in account.modes.items():
        if name != "key" and not reads_home(found.ssh):
            continue  # sshd looks at neither of them
        told = refused(name, mode, account)
        if told:
            path = f"{account.home}{_PATHS.get(name, '/.ssh/id_ed25519')}"
            may_change = name != "home" or mode.uid in (0, account.uid)
            take = "go=" if name == "key" else "go-w"
            by_hand = f"give {path} to {account.user}: it may be somebody else's"
            yield Fault(
                subject=path,
                found=told,
                wanted=f"owned by {account.user}, mode {_closed(name, mode)}",
                cause="sshd takes no key from files that others may write to (StrictModes), ssh "
                "none that others may read: 'Permission denied (publickey)'",
                fix=f"chown {account.user} {quote(path)} && chmod {take} {quote(path)}"
                if may_change
                else by_hand,
                fixable=may_change,
            )


def refused(name: str, mode: Mode, account: Account) -> str:
    """Say why a key is refused for a file or folder of that mode; empty where it is not."""
    owners = (account.uid,) if name == "key" else (0, account.uid)
    if mode.uid in owners and not int(mode.mode, 8) & _CLOSED[name]:
        return ""
    return f"mode {mode.mode}, owner {mode.uid}"


def _closed(name: str, mode: Mode) -> str:
    return f"{int(mode.mode, 8) & ~_CLOSED[name]:04o}"


@rule("ssh.key-missing", "error", between=True)
def key_missing(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """The training user has no ed25519 key on this node."""
    account = found.ssh.account
    if account is None or not has_mesh(wanted, among):
        return
    if account.public is None and not account.unusable:
        yield Fault(
            subject=f"{account.home}/.ssh/id_ed25519",
            found="no such file",
            wanted="a key of this node's own",
            cause="without a key the launcher cannot log in to the other nodes, and asks for a "
            "password that nobody types",
            fix=f"ssh-keygen -t ed25519 -N '' -C gpu-node:{among.name} -f {KEY}"
            + (f"; {account.stray} belongs to no key here: " if account.stray else "")
            + (f"move it to {account.stray}.before-gpu-node first" if account.stray else ""),
        )


@rule("ssh.key-unusable", "error", between=True)
def key_unusable(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """The training user's ed25519 key cannot be used without somebody at the keyboard."""
    account = found.ssh.account
    if account is None or not account.unusable or not has_mesh(wanted, among):
        return
    if "key" in account.modes and refused("key", account.modes["key"], account):
        return  # told as ssh.permissions, and usable once that is mended
    yield Fault(
        subject=f"{account.home}/.ssh/id_ed25519",
        found=account.unusable,
        wanted="a key without a passphrase",
        cause="a launcher starts without anybody who could type the passphrase",
        fix=f"move {KEY} and {KEY}.pub away, and converge: the node then makes a key of its own",
        fixable=False,
    )


@rule("ssh.not-authorised", "error", between=True)
def not_authorised(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """A node's key is not in authorized_keys here, or not from where that node comes."""
    block = found.ssh.authorized
    if block is None or not has_mesh(wanted, among):
        return
    for peer in among.nodes:
        state = state_of(peer.name, found, among)
        if state is None or state.account is None:
            continue  # nothing is known of it in this run
        public = state.account.public
        if public is None and state.account.unusable:
            continue
        addresses = comes_from(peer, state)
        files = elsewhere(found.ssh, peer.name)
        if files is not None:
            if public and not lets_in_already(state, among):
                itself = peer.name == among.name
                yield from _not_let_in_elsewhere(found.ssh, peer, public, addresses, files, itself)
            continue
        if public and lets_in(block, peer.name, public, addresses):
            continue
        yield Fault(
            subject=peer.name,
            found=f"{AUTHORIZED} has no line that lets it in",
            wanted=f"its key, from {', '.join(addresses)}"
            if public
            else "its key, once it has one",
            cause="'Permission denied (publickey)' where the launcher logs in from there",
            fix=CONVERGE,
            fixable=block.is_whole,
        )


def _not_let_in_elsewhere(
    ssh: SshState,
    peer: Peer,
    public: str,
    addresses: tuple[str, ...],
    files: tuple[str, ...],
    itself: bool,
) -> Iterator[Fault]:
    if has_key(ssh, files, public) is not False:
        return  # it is there, or cannot be looked for: whether it lets in shows in the logins
    user = ssh.account.user if ssh.account is not None else "the user"
    line = authorized_line(peer.name, public, addresses, itself)
    yield Fault(
        subject=peer.name,
        found=f"sshd reads {', '.join(files) or 'no file'} for {user} (AuthorizedKeysFile): "
        "no line there lets it in",
        wanted=f"its key, from {', '.join(addresses)}",
        cause="'Permission denied (publickey)' where the launcher logs in from there; sshd does "
        f"not read {AUTHORIZED}",
        fix=f"add to {files[0]}: {line}"
        if files
        else f"set AuthorizedKeysFile for {user} in this node's sshd_config, and add there: {line}",
        fixable=False,
    )


@rule("ssh.unconfirmed", "error", between=True)
def unconfirmed(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """A run was cut off before a new session confirmed its change of authorized_keys."""
    if found.ssh.pending and has_mesh(wanted, among):
        yield Fault(
            subject=AUTHORIZED,
            found="a change that no new session has confirmed",
            wanted="a confirmed file",
            cause="a run was cut off after it wrote the file: within a minute the node puts back "
            "what was there before",
            fix="open a new session and confirm it",
        )


@rule("ssh.unknown-host-key", "error", between=True)
def unknown_host_key(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """A node's host key is not in known_hosts here, by name or by address."""
    for peer, keys, known in _known(found, wanted, among):
        unknown = [
            (lookup, key)
            for lookup, told in known.items()
            if not set(keys) & set(told)  # ssh asks for the kinds that it knows
            for key in keys
            if _kind(key) not in map(_kind, told)
        ]
        if unknown:
            kinds = dict.fromkeys(_kind(key) for _, key in unknown)
            by = dict.fromkeys(lookup for lookup, _ in unknown)
            yield Fault(
                subject=peer.name,
                found=f"no {', '.join(kinds)} key of {', '.join(by)}",
                wanted=", ".join(key for key in keys if _kind(key) in kinds),
                cause="ssh asks whether to go on, and nobody answers: 'Host key verification "
                "failed', or rank 0 waits for ever",
                **_lines_of(found.ssh, peer),
            )


@rule("ssh.host-key-changed", "error", between=True)
def host_key_changed(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """Another host key is known here than the one that a node has."""
    for peer, keys, known in _known(found, wanted, among):
        for key in keys:
            same = {
                lookup: [each for each in told if _kind(each) == _kind(key)]
                for lookup, told in known.items()
            }
            other = {lookup: each for lookup, each in same.items() if each and key not in each}
            if other:
                told = dict.fromkeys(each for others in other.values() for each in others)
                yield Fault(
                    subject=peer.name,
                    found=f"{', '.join(told)} for {', '.join(other)}",
                    wanted=key,
                    cause="ssh refuses: 'REMOTE HOST IDENTIFICATION HAS CHANGED'; the node was "
                    "installed anew, or it is another one",
                    **_lines_of(found.ssh, peer),
                )


def _kind(key: str) -> str:
    return key.split()[0]


def _lines_of(ssh: SshState, peer: Peer) -> _Way:
    """Return how a node's lines get into known_hosts, and whether a deploy can do that."""
    if other := known_hosts_elsewhere(ssh, peer):
        fix = f"its keys in {other}: ssh does not read {KNOWN_HOSTS} for it"
        return {"fix": fix, "fixable": False}
    is_whole = ssh.known_hosts is not None and ssh.known_hosts.block.is_whole
    fix = f"its lines in {KNOWN_HOSTS}, as {peer.name} itself tells its keys"
    return {"fix": fix, "fixable": is_whole}


def _known(
    found: NodeState, wanted: NodeWanted, among: Among
) -> Iterator[tuple[Peer, list[str], dict[str, tuple[str, ...]]]]:
    """Yield each node that was asked, its real keys, and those known by what ssh looks up."""
    known = found.ssh.known_hosts
    if known is None or not has_mesh(wanted, among):
        return
    for peer in among.nodes:
        state = state_of(peer.name, found, among)
        if state is not None and state.host_keys:
            keys = [fingerprint(each) for each in state.host_keys]
            yield peer, keys, {each: known.keys.get(each, ()) for each in lookups(peer)}
