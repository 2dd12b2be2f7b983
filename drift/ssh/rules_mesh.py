"""SSH rules about the mesh: names mean the nodes' addresses, and every login between them works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_node.drift.engine.neighbours import Among
from gpu_node.drift.engine.rule import Fault, on_node, on_peer, on_subject, rule
from gpu_node.drift.engine.subject import Node, Path, Subject
from gpu_node.drift.env.rules import user_missing
from gpu_node.drift.ssh.mesh import (
    Lines,
    comes_from,
    has_mesh,
    hosts_lines,
    hosts_wanted,
    installers_line,
    known_wanted,
    left_over,
    meant,
    resolves,
    state_of,
)
from gpu_node.drift.ssh.rules import (
    AUTHORIZED,
    CONVERGE,
    host_key_changed,
    key_missing,
    key_unusable,
    not_authorised,
    permissions,
    unknown_host_key,
)
from gpu_node.drift.ssh.rules_port import port_unset
from gpu_node.drift.ssh.settings import client, detour, reads_home, set_by
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.managed_block import Block
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.ssh.logins import FULL_MESH, Login
from gpu_node.facts.ssh.mesh import HOSTS, KNOWN_HOSTS
from gpu_node.facts.ssh.settings import OFFERS, PROXIES
from gpu_node.facts.ssh.state import HostsLine, SshState
from gpu_node.inventories.fields.addresses import is_loopback
from gpu_node.inventories.schema import NodeWanted

_WAITS = "launchers start their ranks over ssh: this one never starts, and the others wait for it"
_PUNISHED = (
    "its sshd refuses this node's address for a while, because earlier logins from there failed "
    "(PerSourcePenalties)"
)


@rule(
    "ssh.name-unresolved",
    "error",
    between=True,
    step="ssh",
    under="ssh",
    why="Launchers and torch's rendezvous use names: with one that resolves to loopback, a "
    "node listens where others cannot connect.",
    manual="Add a line with the address and the name of the node to /etc/hosts.",
    repair="Writes marked lines in /etc/hosts, and comments out the line 127.0.1.1 of Debian's"
    " installer.",
    alone="Put `Host NAME` and `HostName ADDRESS` into ~/.ssh/config, and use an address as "
    "MASTER_ADDR.",
)
def name_unresolved(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """A node's name does not resolve here, or means something else than its address."""
    names, hosts = found.ssh.names, found.ssh.hosts
    if names is None or hosts is None or not has_mesh(wanted, among):
        return
    for peer in among.nodes:
        if resolves(peer, names):
            continue
        expected = meant(peer, names) or ()
        installers = installers_line(peer.name, hosts.lines) if peer.name == among.name else None
        has_line = hosts.block.of(peer.name) == hosts_lines(peer, names)
        in_the_way = "" if installers else _in_the_way(peer, expected, hosts.lines, has_line)
        yield Fault(
            subject=Node(peer.name, installers.line if installers else None),
            found=", ".join(names.names[peer.name]) or "does not resolve",
            wanted=", ".join(expected) or peer.address,
            cause="launchers and torch's rendezvous use names: with one that resolves to "
            "loopback, as in Debian's line 127.0.1.1, gloo listens where no other node can connect",
            fix=in_the_way or _line_for(has_line, installers),
            fixable=not in_the_way
            and (not has_line or installers is not None)
            and bool(expected)
            and hosts.block.is_whole,
        )


def _line_for(has_line: bool, installers: HostsLine | None) -> str:
    if installers is not None:
        comment = f"a # before line {installers.line} of {HOSTS}, which Debian's installer wrote"
        return comment if has_line else f"{comment}, and a line for it"
    if has_line:
        return f"look at the line hosts: in /etc/nsswitch.conf, and at DNS: {HOSTS} is right"
    return f"a line for it in {HOSTS}"


def _in_the_way(
    peer: Peer, expected: tuple[str, ...], lines: tuple[HostsLine, ...], has_line: bool
) -> str:
    """Say which line of others decides: of several lines a loopback address comes first.

    Of two other addresses the resolver may prefer either, whichever line is first: it sorts them by
    the networks of this node. That shows only beside our own line.
    """
    for each in lines:
        address, *names = each.text.split("#")[0].split()
        if peer.name not in names or address in expected:
            continue
        if is_loopback(address) or has_line:
            return f"remove {peer.name} from line {each.line} of {HOSTS}: {each.text.strip()}"
    return ""


@rule(
    "ssh.block-outdated",
    "warning",
    between=True,
    step="ssh",
    under="ssh",
    why="A node that was removed can still log in, or is still trusted.",
    manual="Update the lines between the gpu-node markers in the file.",
    repair="Rewrites the marked lines in authorized_keys, ssh_known_hosts and /etc/hosts.",
)
def block_outdated(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """Our lines in a file are not those of the nodes that the inventory names."""
    if wanted.ssh is None or wanted.ssh.mesh is not True:
        return
    ssh = found.ssh
    if among.nodes and not among.others:
        # The last node needs no lines: those of the nodes that were taken out go, and its own.
        among = replace(among, nodes=())
    unknown = [*unknown_host_key(found, wanted, among), *host_key_changed(found, wanted, among)]
    unverified = {each.subject for each in unknown}
    known = {
        name: lines
        for name, lines in known_wanted(found, among).items()
        if lines and Node(name) not in unverified
    }
    healed = {each.subject for each in name_unresolved(found, wanted, among) if each.fixable}
    hosts = {
        name: each for name, each in hosts_wanted(found, among).items() if Node(name) not in healed
    }
    if reads_home(ssh):
        yield from _outdated(AUTHORIZED, ssh.authorized, {}, among)
    if ssh.known_hosts is not None:
        yield from _outdated(KNOWN_HOSTS, ssh.known_hosts.block, known, among)
    if ssh.hosts is not None:
        yield from _outdated(HOSTS, ssh.hosts.block, hosts, among)


def _outdated(path: str, block: Block | None, lines: Lines, among: Among) -> Iterator[Fault]:
    # A node that we never wrote to has nothing outdated: others' lines say what is known there.
    if block is None or (block.is_whole and not block.lines):
        return
    gone = left_over(block, among)
    other = [node for node, text in lines.items() if block.of(node) != text]
    if block.is_whole and not gone and not other:
        return
    outdated = f"lines of {', '.join(gone)}" if gone else f"not the lines of {', '.join(other)}"
    yield Fault(
        subject=Path(path),
        found=outdated if block.is_whole else "gpu-node's block, without its last line",
        wanted="the nodes of the inventory, as they are",
        cause="a node that was removed can still log in, or is still trusted, and "
        "a renamed one keeps its old name",
        fix="rewrite gpu-node's block" if block.is_whole else "remove the rest of gpu-node's block",
        fixable=block.is_whole,
        severity=None if block.is_whole else "error",
    )


def _is_key(about: Subject) -> bool:
    return isinstance(about, Path) and about.path.endswith("/id_ed25519")


def _is_no_key(about: Subject) -> bool:
    return not _is_key(about)


_WHY_NO_LOGIN = (
    on_node(key_missing),
    on_node(key_unusable),
    on_node(permissions, when=_is_key),
    on_peer(user_missing),
    on_peer(not_authorised),
    on_peer(permissions, when=_is_no_key),
    on_subject(unknown_host_key),
    on_subject(host_key_changed),
    on_subject(name_unresolved),
    on_subject(port_unset),
)


@rule(
    "ssh.no-login",
    "error",
    between=True,
    step="ssh",
    because_of=_WHY_NO_LOGIN,
    under="ssh",
    why="Launchers start their ranks over ssh: this one does not start, and the others wait"
    " for it.",
    manual="Run ssh -v NODE true as the training user, and repair what it reports.",
    repair="Repairs keys, authorized_keys, host keys, names and ports on both nodes.",
)
def no_login(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """This node cannot log in to another, or to itself, without a password."""
    if found.ssh.logins is None or not has_mesh(wanted, among):
        return
    for peer in among.nodes:
        failed = [each for each in found.ssh.logins if each.node == peer.name and each.code != 0]
        if not failed:
            continue
        state = state_of(peer.name, found, among)
        if state is not None and state.left_out:
            continue  # the inventory keeps that node out of the mesh
        asked = state is not None
        # As another user no repair of the mesh lets it in.
        users = _users(peer, found, state) if state is not None else ""
        heals = asked and not users and _heals(peer, found, wanted, among)
        punished = any(each.is_punished for each in failed)
        yield Fault(
            subject=Node(peer.name),
            found="; ".join(f"by {each.how}: {_words(each)}" for each in failed),
            wanted="a login without a password, by name and by address",
            cause=_PUNISHED if punished else _WAITS,
            fix=users or _next_step(peer, found, among, heals, punished),
            fixable=heals,
            severity=None if asked else "warning",
        )


@rule(
    "ssh.logins-partial",
    "info",
    between=True,
    why="A login between two other nodes may fail unnoticed. With more than "
    f"{FULL_MESH} nodes, not all pairs are tested: sshd blocks an address for a while after "
    "failed logins.",
    manual="Test another pair: run ssh -o BatchMode=yes NAME true on one node, with the name of "
    "the other.",
)
def logins_partial(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """In a large cluster, only logins from and to the first node are tested."""
    count = len(among.nodes)
    if count <= FULL_MESH or not has_mesh(wanted, among) or found.ssh.logins is None:
        return
    states = [(peer, state_of(peer.name, found, among)) for peer in among.nodes]
    tried = [(peer.name, state.logins) for peer, state in states if state and state.logins]
    if not tried or tried[0][0] != among.name:
        return  # once a report
    pairs = sum(len({each.node for each in logins}) for _, logins in tried)
    first = among.nodes[0].name
    yield Fault(
        subject="logins",
        found=f"{pairs} of {count * count} pairs of nodes tried",
        wanted=f"only logins from and to {first}: more than {FULL_MESH} nodes",
        cause="sshd refuses an address for a while after failed logins (PerSourcePenalties), and "
        "every pair is a login",
        fix="to try another pair, on its first node: ssh -o BatchMode=yes NODE true",
        fixable=False,
    )


def _words(login: Login) -> str:
    if login.is_punished:
        rest = "; by address: not tried" if login.how == "name" else ""
        return f"{login.output}{rest}"
    if login.code == 255 and login.output:
        return login.output
    if login.code in (124, 137):
        return "no answer in time"
    return f"exit {login.code}" + (f", {login.output}" if login.output else "")


def _heals(peer: Peer, found: NodeState, wanted: NodeWanted, among: Among) -> bool:
    """Whether something that stands between the two is repaired by a run with both of them."""
    there = among.found.get(peer.name, found)
    other = Among(peer.name, among.nodes, {**among.found, among.name: found})
    here = [
        *permissions(found, wanted, among),
        *key_missing(found, wanted, among),
        *(
            each
            for check in (unknown_host_key, host_key_changed, name_unresolved, port_unset)
            for each in check(found, wanted, among)
            if each.subject == Node(peer.name)
        ),
    ]
    lets = [
        *permissions(there, wanted, other),
        *(
            each
            for each in not_authorised(there, wanted, other)
            if each.subject == Node(among.name)
        ),
    ]
    return any(each.fixable for each in (*here, *lets))


# Settings that may hold for a node's address alone.
_LEADING = (*PROXIES, "hostname", *OFFERS)


def _next_step(peer: Peer, found: NodeState, among: Among, heals: bool, punished: bool) -> str:
    there = state_of(peer.name, found, among)
    if there is None:
        return f"{peer.name} was not part of this run, or gave no answer: run again with it"
    if heals:
        return CONVERGE
    if punished:
        return (
            "wait until the penalty ends (10 minutes at most, unless sshd_config sets max) and run "
            f"again; PerSourcePenaltyExemptList in {peer.name}'s sshd_config exempts addresses"
        )
    failed = [each for each in found.ssh.logins or () if each.node == peer.name and each.code]
    if any("bad configuration option" in each.output for each in failed):
        return "on this node, correct that ssh configuration: no login works until then"
    if leads := detour(found.ssh, peer):
        return f"on this node, look at {leads}"
    if [each.how for each in failed] == ["address"] and (leads := set_by(found.ssh, _LEADING)):
        return f"on this node, look at {leads}: a login by address may reach another host"
    user = there.account.user if there.account is not None else "USER"
    addresses = comes_from(among.itself, found.ssh) if among.itself is not None else ()
    address = next(iter(addresses), "ADDRESS")
    return (
        f"on {peer.name}: sshd -T -C user={user},host={among.name},addr={address} | grep -iE "
        "'permitrootlogin|pubkey|allow|deny|authorizedkeys', and what its sshd logs about the login"
    )


def _users(peer: Peer, found: NodeState, there: SshState) -> str:
    """Name the users of two nodes where ssh logs in as one and the mesh is that of the other."""
    parsed, own = client(found.ssh, peer), found.ssh.account
    user = parsed.user if parsed is not None else own.user if own is not None else None
    if user is None or there.account is None or user == there.account.user:
        return ""
    return (
        f"ssh logs in as {user} here, the training user of {peer.name} is {there.account.user}: "
        "give both nodes one user (launcher: {user: ...} or ssh: {user: ...} in the inventory), or "
        f"write User {there.account.user} for Host {peer.name} {peer.address} into ~/.ssh/config"
    )
