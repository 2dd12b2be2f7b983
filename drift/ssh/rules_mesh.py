"""SSH rules about the mesh: names mean the nodes' addresses, and every login between them works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from drift.among import Among
from drift.mesh import (
    Lines,
    comes_from,
    has_mesh,
    hosts_lines,
    hosts_wanted,
    installers_line,
    is_loopback,
    known_wanted,
    left_over,
    meant,
    resolves,
    state_of,
)
from drift.rules.rule import Fault, rule
from drift.rules.ssh import (
    AUTHORIZED,
    CONVERGE,
    host_key_changed,
    key_missing,
    not_authorised,
    permissions,
    unknown_host_key,
)
from drift.rules.ssh_port import port_unset
from drift.ssh_settings import client, detour, reads_home, set_by
from facts.block import Block
from facts.cluster import Peer
from facts.logins import FULL_MESH, Login
from facts.mesh import HOSTS, KNOWN_HOSTS
from facts.node import NodeState
from facts.ssh import HostsLine, SshState
from facts.ssh_settings import OFFERS, PROXIES
from inventories.schema import NodeWanted

_WAITS = "launchers start their ranks over ssh: this one never starts, and the others wait for it"
_PUNISHED = (
    "its sshd refuses this node's address for a while, because earlier logins from there failed "
    "(PerSourcePenalties)"
)


@rule("ssh.name-unresolved", "error", between=True)
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
            subject=peer.name,
            found=", ".join(names.names[peer.name]) or "does not resolve",
            wanted=", ".join(expected) or peer.address,
            cause="a launcher and torch's rendezvous go by name; one that means this node itself, "
            "as in Debian's line 127.0.1.1, has gloo listen where nobody else can connect",
            fix=in_the_way or _line_for(has_line, installers),
            fixable=not in_the_way
            and (not has_line or installers is not None)
            and bool(expected)
            and hosts.block.is_whole,
        )


def _line_for(has_line: bool, installers: HostsLine | None) -> str:
    if installers is not None:
        said = f"a # before line {installers.line} of {HOSTS}, which Debian's installer wrote"
        return said if has_line else f"{said}, and a line for it"
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
            return f"take {peer.name} out of line {each.line} of {HOSTS}: {each.text.strip()}"
    return ""


@rule("ssh.block-outdated", "warning", between=True)
def block_outdated(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """Our lines in a file are not those of the nodes that the inventory names."""
    if wanted.ssh is None or wanted.ssh.mesh is not True:
        return
    ssh = found.ssh
    if among.nodes and not among.others:
        # The last node needs no lines: those of the nodes that were taken out go, and its own.
        among = replace(among, nodes=())
    unknown = [*unknown_host_key(found, wanted, among), *host_key_changed(found, wanted, among)]
    told = {each.subject for each in unknown}
    known = {
        peer.name: lines
        for peer in among.nodes
        if (lines := known_wanted(found, among).get(peer.name)) and peer.name not in told
    }
    healed = {each.subject for each in name_unresolved(found, wanted, among) if each.fixable}
    hosts = {name: each for name, each in hosts_wanted(found, among).items() if name not in healed}
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
    told = f"lines of {', '.join(gone)}" if gone else f"not the lines of {', '.join(other)}"
    yield Fault(
        subject=path,
        found=told if block.is_whole else "our block, whose last line is missing",
        wanted="the nodes of the inventory, as they are",
        cause="a node that was taken out can still log in, or is still trusted, and one that was "
        "renamed goes by its old name",
        fix="our block written anew" if block.is_whole else "take out what is left of our block",
        fixable=block.is_whole,
        severity=None if block.is_whole else "error",
    )


@rule("ssh.no-login", "error", between=True)
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
            subject=peer.name,
            found="; ".join(f"by {each.how}: {_words(each)}" for each in failed),
            wanted="a login without a password, by name and by address",
            cause=_PUNISHED if punished else _WAITS,
            fix=users or _way_on(peer, found, among, heals, punished),
            fixable=heals,
            severity=None if asked else "warning",
        )


@rule("ssh.logins-partial", "info", between=True)
def logins_partial(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """Of a large cluster the logins from and to the first node alone are tried."""
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
        wanted=f"logins from and to {first} alone, of more than {FULL_MESH} nodes",
        cause="sshd refuses an address for a while after failed logins (PerSourcePenalties), and "
        "every pair is a login",
        fix="to try another pair, on its first node: ssh -o BatchMode=yes NODE true",
        fixable=False,
    )


def _words(login: Login) -> str:
    if login.is_punished:
        rest = "; by address: not tried" if login.how == "name" else ""
        return f"{login.said}{rest}"
    if login.code == 255 and login.said:
        return login.said
    if login.code in (124, 137):
        return "no answer in time"
    return f"exit {login.code}" + (f", {login.said}" if login.said else "")


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
            if each.subject == peer.name
        ),
    ]
    lets = [
        *permissions(there, wanted, other),
        *(each for each in not_authorised(there, wanted, other) if each.subject == among.name),
    ]
    return any(each.fixable for each in (*here, *lets))


# Settings that may hold for a node's address alone.
_LEADING = (*PROXIES, "hostname", *OFFERS)


def _way_on(peer: Peer, found: NodeState, among: Among, heals: bool, punished: bool) -> str:
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
    if any("bad configuration option" in each.said for each in failed):
        return "on this node, correct that file of ssh's: no login works until then"
    if leads := detour(found.ssh, peer):
        return f"on this node, look at {leads}"
    if [each.how for each in failed] == ["address"] and (leads := set_by(found.ssh, _LEADING)):
        return f"on this node, look at {leads}: a login by address may be led elsewhere"
    user = there.account.user if there.account is not None else "USER"
    addresses = comes_from(among.itself, found.ssh) if among.itself is not None else ()
    address = next(iter(addresses), "ADDRESS")
    return (
        f"on {peer.name}: sshd -T -C user={user},host={among.name},addr={address} | grep -iE "
        "'permitrootlogin|pubkey|allow|deny|authorizedkeys', and what its sshd logs of the login"
    )


def _users(peer: Peer, found: NodeState, there: SshState) -> str:
    """Name the users of two nodes where ssh logs in as one and the mesh is that of the other."""
    told, own = client(found.ssh, peer), found.ssh.account
    user = told.user if told is not None else own.user if own is not None else None
    if user is None or there.account is None or user == there.account.user:
        return ""
    return (
        f"ssh logs in as {user} here, the training user of {peer.name} is {there.account.user}: "
        "give both nodes one user (launcher: {user: ...} or ssh: {user: ...} in the inventory), or "
        f"write User {there.account.user} for Host {peer.name} {peer.address} into ~/.ssh/config"
    )
