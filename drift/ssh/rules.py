"""SSH rules about keys: each node has its own, lets the others' in, and knows their hosts."""

from collections.abc import Collection, Iterator
from shlex import quote
from typing import TypedDict

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.ssh.links import Link, faults
from gpu_node.drift.ssh.mesh import (
    asked,
    authorized_line,
    comes_from,
    has_mesh,
    lets_in,
    of_run,
    state_of,
    with_one_user,
)
from gpu_node.drift.ssh.settings import (
    elsewhere,
    has_key,
    is_reached,
    known_hosts_elsewhere,
    lets_in_already,
    reads_home,
    refuses_keys,
    worked,
)
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.shm.state import Mode
from gpu_node.facts.ssh.mesh import KNOWN_HOSTS, lookups
from gpu_node.facts.ssh.state import Account, Authorized, SshState, fingerprint
from gpu_node.inventories.fields.addresses import is_loopback
from gpu_node.inventories.wanted import NodeWanted


class _Way(TypedDict):
    """The part of a fault that is about its repair."""

    fix: str
    fixes: str
    fixable: bool
    kind: str


KEY = "~/.ssh/id_ed25519"
AUTHORIZED = "~/.ssh/authorized_keys"
CONVERGE = "run the deploy for this node and that one together"
CONVERGE_ALL = "run the deploy for this node and those together"
_DENIED = "'Permission denied (publickey)' when the launcher logs in from there"
_NO_KEY_LET_IN = "Permission denied"
_THEIR_KEYS = "the host keys that these nodes have"
# What may be open to others at most: sshd's StrictModes, and ssh about a private key.
_PATHS = {"home": "", "folder": "/.ssh", "authorized": "/.ssh/authorized_keys"}
_CLOSED = {"home": 0o022, "folder": 0o022, "authorized": 0o022, "key": 0o077}


@check("ssh.permissions")
def permissions(at: At) -> Iterator[Fault]:
    account = at.node.ssh.account
    if account is None or not has_mesh(at.wanted, at.nodes):
        return
    for name, mode in account.modes.items():
        if name != "key" and not reads_home(at.node.ssh):
            continue  # sshd looks at neither of them
        refusal = refused(name, mode, account)
        if refusal:
            path = f"{account.home}{_PATHS.get(name, '/.ssh/id_ed25519')}"
            may_change = name != "home" or mode.uid in (0, account.uid)
            take = "go=" if name == "key" else "go-w"
            manual_fix = f"give {path} to {account.user}: it may belong to another user"
            yield Fault(
                subject=Path(path),
                found=refusal,
                wanted=f"owned by {account.user}, mode {_closed(name, mode)}",
                fix=f"chown {account.user} {quote(path)} && chmod {take} {quote(path)}"
                if may_change
                else manual_fix,
                fixable=may_change,
                who="user" if mode.uid == account.uid else "administrator",
                stops=not (_logs_in(at.node) if name == "key" else is_reached(at.nodes)),
                # ssh refuses an open key of its own node; sshd looks at what lets others in.
                explains="here" if name == "key" else "peers",
            )


def refused(name: str, mode: Mode, account: Account) -> str:
    """Say why a key is refused for a file or folder of that mode; empty where it is not."""
    owners = (account.uid,) if name == "key" else (0, account.uid)
    if mode.uid in owners and not int(mode.mode, 8) & _CLOSED[name]:
        return ""
    return f"mode {mode.mode}, owner {mode.uid}"


def _closed(name: str, mode: Mode) -> str:
    return f"{int(mode.mode, 8) & ~_CLOSED[name]:04o}"


@check("ssh.key-missing")
def key_missing(at: At) -> Iterator[Fault]:
    account = at.node.ssh.account
    if account is None or not has_mesh(at.wanted, at.nodes):
        return
    if account.public is None and not account.unusable:
        yield Fault(
            subject=Path(f"{account.home}/.ssh/id_ed25519"),
            found="no such file",
            wanted="a separate key for this node",
            fix=f"ssh-keygen -t ed25519 -N '' -C gpu-node:{at.nodes.name} -f {KEY}"
            + (f"; {account.stray} belongs to no key here: " if account.stray else "")
            + (f"move it to {account.stray}.before-gpu-node first" if account.stray else ""),
            stops=not _logs_in(at.node),
        )


def _logs_in(state: NodeState) -> bool:
    """Whether each login from this node worked: by another key, or without one."""
    tried = {each.node for each in state.ssh.logins or ()}
    return bool(tried) and tried == worked(state.ssh)


@check("ssh.key-unusable")
def key_unusable(at: At) -> Iterator[Fault]:
    account = at.node.ssh.account
    if account is None or not account.unusable or not has_mesh(at.wanted, at.nodes):
        return
    if "key" in account.modes and refused("key", account.modes["key"], account):
        return  # ssh.permissions reports it; usable once that is repaired
    yield Fault(
        subject=Path(f"{account.home}/.ssh/id_ed25519"),
        found=account.unusable,
        wanted="a key without a passphrase",
        stops=not _logs_in(at.node),
    )


@check("ssh.not-authorised")
def not_authorised(at: At) -> Iterator[Fault]:
    if at.node.ssh.authorized is None or not has_mesh(at.wanted, at.nodes):
        return
    refusals = list(_refusals(at.node.ssh.authorized, at.node, at.nodes))
    known = {each.peer: state_of(each.peer, at.node, at.nodes) for each in refusals}
    let_in = [peer for peer, there in known.items() if there and lets_in_already(there, at.nodes)]
    shown = [_logs_in_by_another(each) if each.peer in let_in else each for each in refusals]
    yield from faults(at.nodes, shown, let_in)


def _logs_in_by_another(link: Link) -> Link:
    """Return what is missing for the key of a node whose logins work: our line alone."""
    if link.cause != _DENIED:
        return link
    return link._replace(
        words=f"{AUTHORIZED} has no line of gpu-node for its key",
        cause="it logs in by another key or line, or without a key: when that goes, its logins "
        "fail",
        severity="warning",
    )


def _refusals(block: Authorized, state: NodeState, nodes: Nodes) -> Iterator[Link]:
    lines, unlisted = of_run(_usual_lines, state, nodes), of_run(_unlisted, state, nodes)
    for peer in with_one_user(state, nodes).peers:
        listed, is_here = block.by_node.get(peer.name), _reads_ours(state.ssh, peer.name)
        if is_here and listed is not None and listed == lines.get(peer.name):
            continue
        if is_here and listed is None and block.is_whole:
            refused = unlisted.get(peer.name)
        else:
            refused = refusal(peer, state, nodes)
        refused = _by_other_lines(refused, block, state_of(peer.name, state, nodes), nodes)
        if refused is not None:
            yield refused


def _by_other_lines(
    link: Link | None, block: Authorized, there: SshState | None, nodes: Nodes
) -> Link | None:
    """Return the refusal of a key that a line of others has: None until sshd denies a login."""
    public = there.account.public if there is not None and there.account is not None else None
    if link is None or there is None or link.cause != _DENIED or public not in block.others:
        return link
    tried = [each for each in there.logins or () if each.node == nodes.name]
    if lets_in_already(there, nodes) or not any(_NO_KEY_LET_IN in each.output for each in tried):
        return None
    return link._replace(words=f"no line of {AUTHORIZED} lets its key in, and one has it")


def _reads_ours(ssh: SshState, node: str) -> bool:
    """Whether a node's key in our file lets it in, as far as sshd's settings decide."""
    return elsewhere(ssh, node) is None and not refuses_keys(ssh, node)


def _unlisted(nodes: Nodes) -> dict[str, Link]:
    """Return the refusal of each node's key by a node that has no line for it."""
    return {
        peer.name: _refused(peer, state.account.public, comes_from(peer, state))
        for peer, state in asked(nodes)
        if state.account is not None and (state.account.public or not state.account.unusable)
    }


def _usual_lines(nodes: Nodes) -> dict[str, tuple[str, ...]]:
    """Return the lines with which a deploy has the key of each node let in by the others."""
    own = {
        peer.name: (state.account.public, comes_from(peer, state))
        for peer, state in asked(nodes)
        if state.account is not None
    }
    return {
        name: (authorized_line(name, public, addresses, itself=False),)
        for name, (public, addresses) in own.items()
        if public is not None and addresses
    }


def refusal(peer: Peer, node: NodeState, nodes: Nodes) -> Link | None:
    """Return why the login of a node's key here is refused; None where it is not, or unknown."""
    state = state_of(peer.name, node, nodes)
    block = node.ssh.authorized
    if block is None or state is None or state.account is None:
        return None  # nothing is known of it in this run
    public = state.account.public
    if public is None and state.account.unusable:
        return None
    addresses = comes_from(peer, state)
    if setting := refuses_keys(node.ssh, peer.name):
        return (
            None
            if lets_in_already(state, nodes)
            else _refused_by(setting, peer, addresses, node.ssh)
        )
    files = elsewhere(node.ssh, peer.name)
    if files is not None:
        if not public or lets_in_already(state, nodes):
            return None
        if not addresses:
            return _without_address(peer)
        return _not_let_in_elsewhere(node.ssh, peer, public, addresses, files, nodes)
    if public and lets_in(block, peer.name, public, addresses):
        return None
    refused = _by_other_lines(_refused(peer, public, addresses), block, state, nodes)
    return refused and refused._replace(fixable=refused.fixable and block.is_whole)


def _refused(peer: Peer, public: str | None, addresses: tuple[str, ...]) -> Link:
    """Return the refusal of a key that sshd would let in by a line of ours."""
    if public and not addresses:
        return _without_address(peer)
    return _not_let_in(peer, public, addresses)


def _without_address(peer: Peer) -> Link:
    return Link(
        peer=peer.name,
        words="no address is known that its logins come from",
        wanted="an address that other nodes reach it at",
        cause="a key is let in only from the addresses of its node: without one, no line can let "
        "it in",
        fix="in the inventory, give it an address that is not this machine's own, as "
        f"{peer.address} is"
        if is_loopback(peer.address)
        else f"look why {peer.address} does not resolve there, or give its IP address in the "
        "inventory",
        fixable=False,
        kind="address",
        fixes="in the inventory, give each an IP address that the others reach",
    )


def _not_let_in(peer: Peer, public: str | None, addresses: tuple[str, ...]) -> Link:
    return Link(
        peer=peer.name,
        words=f"{AUTHORIZED} has no line that accepts its key",
        wanted=f"its key, from {', '.join(addresses)}" if public else "its key, once it has one",
        cause=_DENIED,
        fix=CONVERGE,
        kind="key" if public else "no key",
        wants="the key of each, from its addresses" if public else "their keys, once they have one",
        fixes=CONVERGE_ALL,
        who="deploy",
    )


def _refused_by(setting: str, peer: Peer, addresses: tuple[str, ...], ssh: SshState) -> Link:
    """Return the refusal of every key without a command: our line would be refused as well."""
    user = ssh.account.user if ssh.account is not None else "root"
    keyword = setting.partition(" ")[0]
    value = "prohibit-password" if keyword == "PermitRootLogin" else "yes"
    ask = f"host={peer.name},addr={next(iter(addresses), peer.address)}"
    fix = (
        f"set {keyword} {value} in this node's sshd_config, or in its Match block for these nodes, "
        "and reload sshd"
    )
    if keyword == "PermitRootLogin":
        fix += "; or train as another user: launcher: {user: ...} in the inventory"
    return Link(
        peer=peer.name,
        words=f"{setting}: sshd refuses its key"
        + (", which has no command=" if setting.endswith("forced-commands-only") else ""),
        wanted=f"{keyword} {value} for logins from {', '.join(addresses) or peer.name}",
        cause=f"{_DENIED}, whatever {AUTHORIZED} has",
        fix=f"{fix}; check: sshd -T -C user={user},{ask} | grep -i {keyword.lower()}",
        fixable=False,
        kind=setting,
        wants=f"{keyword} {value}",
        fixes=f"{fix}; check: sshd -T -C user={user},host=NODE,addr=ADDRESS",
        who="administrator",
    )


def _not_let_in_elsewhere(
    ssh: SshState,
    peer: Peer,
    public: str,
    addresses: tuple[str, ...],
    files: tuple[str, ...],
    nodes: Nodes,
) -> Link | None:
    if has_key(ssh, files, public) is not False:
        return None  # it is there, or cannot be looked for: whether it lets in shows in the logins
    user = ssh.account.user if ssh.account is not None else "the user"
    line = authorized_line(peer.name, public, addresses, peer.name == nodes.name)
    place = f"set AuthorizedKeysFile for {user} in this node's sshd_config, and add there"
    if files:
        place = f"add to {files[0]}"
    return Link(
        peer=peer.name,
        words=f"sshd reads {', '.join(files) or 'no file'} for {user} (AuthorizedKeysFile): "
        "no line there accepts its key",
        wanted=f"its key, from {', '.join(addresses)}",
        cause=f"{_DENIED}; sshd does not read {AUTHORIZED}",
        who="administrator",
        fix=f"{place}: {line}",
        fixable=False,
        kind=place,
        wants="the key of each, from its addresses",
        fixes=f"{place} a line for each of them, such as: {line}",
    )


@check("ssh.unconfirmed")
def unconfirmed(at: At) -> Iterator[Fault]:
    if _waits(at.node) and has_mesh(at.wanted, at.nodes):
        yield Fault(
            subject=Path(AUTHORIZED),
            found="a change that no new session has confirmed",
            wanted="a confirmed file",
        )


def _waits(state: NodeState) -> bool:
    """Whether a change of the training user's authorized_keys waits to be confirmed."""
    account = state.ssh.account
    path = f"{account.home}{_PATHS['authorized']}" if account is not None else ""
    return any(each.path == path for each in state.limits.unsettled or ())


@check("ssh.unknown-host-key")
def unknown_host_key(at: At) -> Iterator[Fault]:
    yield from faults(at.nodes, unknown_keys(at.node, at.wanted, at.nodes), worked(at.node.ssh))


def unknown_keys(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Link]:
    """Yield each peer whose host key is not known here."""
    for peer, keys, known in _known(state, wanted, nodes):
        unknown = [
            (how, key)
            for how, listed in known
            if not set(keys) & set(listed)  # ssh asks for the kinds that it knows
            for key in keys
            if _kind(key) not in map(_kind, listed)
        ]
        if unknown:
            kinds = dict.fromkeys(_kind(key) for _, key in unknown)
            by = dict.fromkeys(how for how, _ in unknown)
            yield Link(
                peer=peer.name,
                words=f"no {', '.join(kinds)} key by {' or '.join(by)}",
                wanted=", ".join(key for key in keys if _kind(key) in kinds),
                cause="",
                wants=_THEIR_KEYS,
                **_lines_of(state.ssh, peer),
            )


@check("ssh.host-key-changed")
def host_key_changed(at: At) -> Iterator[Fault]:
    yield from faults(at.nodes, changed_keys(at.node, at.wanted, at.nodes), worked(at.node.ssh))


def changed_keys(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Link]:
    """Yield each peer of which another host key is known here."""
    for peer, keys, known in _known(state, wanted, nodes):
        changed = [key for key in keys if any(_is_other(key, listed) for _, listed in known)]
        if not changed:
            continue
        kinds = {_kind(key) for key in changed}
        other = {
            how: [each for each in listed if _kind(each) in kinds]
            for how, listed in known
            if any(_is_other(key, listed) for key in changed)
        }
        wrong = dict.fromkeys(each for others in other.values() for each in others)
        yield Link(
            peer=peer.name,
            words=f"{', '.join(wrong)} by {' and '.join(other)}",
            wanted=", ".join(changed),
            cause="ssh refuses: 'REMOTE HOST IDENTIFICATION HAS CHANGED'; the node was "
            "reinstalled, or another node has its address",
            wants=_THEIR_KEYS,
            **_lines_of(state.ssh, peer),
        )


def _is_other(key: str, listed: Collection[str]) -> bool:
    """Whether ssh knows another key of this kind, and not this one."""
    return key not in listed and _kind(key) in map(_kind, listed)


def _kind(key: str) -> str:
    return key.partition(" ")[0]


def _lines_of(ssh: SshState, peer: Peer) -> _Way:
    """Return how a node's lines get into known_hosts, and whether a deploy can do that."""
    if other := known_hosts_elsewhere(ssh, peer):
        fix = f"its keys in {other}: ssh does not read {KNOWN_HOSTS} for it"
        fixes = f"their keys in {other}: ssh does not read {KNOWN_HOSTS} for them"
        return {"fix": fix, "fixes": fixes, "fixable": False, "kind": other}
    is_whole = ssh.known_hosts is not None and ssh.known_hosts.block.is_whole
    fix = f"its lines in {KNOWN_HOSTS}, with the keys that {peer.name} itself has"
    fixes = f"their lines in {KNOWN_HOSTS}, with the keys that they themselves have"
    return {"fix": fix, "fixes": fixes, "fixable": is_whole, "kind": ""}


_Listed = list[tuple[str, tuple[str, ...]]]


def _known(
    state: NodeState, wanted: NodeWanted, nodes: Nodes
) -> Iterator[tuple[Peer, tuple[str, ...], _Listed]]:
    """Yield each node that was asked and whose keys are not all known, with its real keys.

    It comes with the keys that are known by its name, and by its address.
    """
    known = state.ssh.known_hosts
    if known is None or not has_mesh(wanted, nodes):
        return
    listed = known.keys
    for peer, keys, name, address in of_run(_real_keys, state, nodes):
        if listed.get(name) == keys == listed.get(address):
            continue  # as a deploy writes them
        by = [("name", name), ("address", address)][: 1 if name == address else 2]
        yield peer, keys, [(how, listed.get(lookup, ())) for how, lookup in by]


def _real_keys(nodes: Nodes) -> list[tuple[Peer, tuple[str, ...], str, str]]:
    """Return each node whose keys were read, its keys, and what ssh looks up for it."""
    return [
        (peer, tuple(map(fingerprint, state.host_keys)), *lookups(peer))
        for peer, state in asked(nodes)
        if state.host_keys and not state.left_out
    ]
