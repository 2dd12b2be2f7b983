"""SSH rules about the mesh: names mean the nodes' addresses, and every login between them works."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from gpu_node.drift.engine.finding import Who
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Logins, Path
from gpu_node.drift.job.rules import job_in
from gpu_node.drift.ranges import ranges
from gpu_node.drift.ssh.links import Link, faults
from gpu_node.drift.ssh.mesh import (
    Lines,
    asked,
    comes_from,
    has_mesh,
    has_others,
    hosts_lines,
    hosts_wanted,
    installers_line,
    known_wanted,
    left_over,
    meant,
    names_of,
    of_run,
    state_of,
    unresolved_peers,
    with_one_user,
)
from gpu_node.drift.ssh.rules import (
    AUTHORIZED,
    CONVERGE,
    CONVERGE_ALL,
    changed_keys,
    key_missing,
    permissions,
    refusal,
    unknown_keys,
)
from gpu_node.drift.ssh.rules_port import wrong_ports
from gpu_node.drift.ssh.settings import client, detour, reads_home, set_by
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.managed_block import Block
from gpu_node.facts.probe.peers import FULL_MESH, Peer
from gpu_node.facts.ssh.logins import Login
from gpu_node.facts.ssh.mesh import HOSTS, KNOWN_HOSTS
from gpu_node.facts.ssh.settings import OFFERS, PROXIES
from gpu_node.facts.ssh.state import HostsLine, SshState
from gpu_node.inventories.fields.addresses import is_loopback
from gpu_node.inventories.wanted import NodeWanted

_WAITS = "launchers start their ranks over ssh: this one never starts, and the others wait for it"
_COPIES = "no rank starts there, and a copy of files from it needs the login"
_AS_THEY_ARE = "the nodes of the inventory, as they are"
_MOUNTED = (
    f"{HOSTS} is a mount, as docker and podman make it in a container, and no deploy can replace "
    "it: start it with --add-host {}"
)
_PUNISHED = (
    "its sshd refuses this node's address for a while, because earlier logins from there failed "
    "(PerSourcePenalties)"
)


@check("ssh.name-unresolved")
def name_unresolved(at: At) -> Iterator[Fault]:
    links = unresolved(at.node, at.wanted, at.nodes)
    unused = at.nodes.once(names_of) - _used(at.wanted, at.nodes)
    silent = at.here.names.silent if at.here.names else ()
    for fault in faults(at.nodes, links, unused.union(silent)):
        is_own = isinstance(fault.subject, Logins) and at.nodes.name in fault.subject.names
        yield fault if fault.stops or is_own else replace(fault, severity="warning")


def _used(wanted: NodeWanted, nodes: Nodes) -> frozenset[str]:
    """Return the nodes to which a launcher logs in by name; of a job its hostfile is known."""
    if nodes.task is not None:
        return frozenset(job_in(nodes).named)
    logs_in = wanted.launcher is not None and wanted.launcher.logs_in
    return nodes.once(names_of) if logs_in else frozenset()


def unresolved(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Link]:
    """Yield each node whose name means something else than its address here."""
    names, hosts = state.ssh.names, state.ssh.hosts
    if names is None or hosts is None or not has_mesh(wanted, nodes):
        return
    for peer in unresolved_peers(names, state, nodes):
        expected = meant(peer, names) or ()
        installers = installers_line(peer.name, hosts.lines) if peer.name == nodes.name else None
        has_line = hosts.block.of(peer.name) == hosts_lines(peer, names)
        resolved = ", ".join(names.names.get(peer.name, ()))
        words = f"resolves to {resolved}" if resolved else "does not resolve"
        other = None if installers else _in_the_way(peer, expected, hosts.lines, has_line)
        if other:
            line = f"line {other.line}"
            fix = f"remove {peer.name} from {line} of {HOSTS}: {other.text.strip()}"
            fixes = f"remove their names from the other lines of {HOSTS}, such as {line}: "
            fixes += other.text.strip()
        elif hosts.is_mount:
            fix = _MOUNTED.format(f"{peer.name}:{next(iter(expected), peer.address)}")
            fixes = f"{_MOUNTED.format('NAME:ADDRESS')} for each"
        else:
            fix, fixes = _line_for(has_line, installers), _lines_for(has_line)
        yield Link(
            peer=peer.name,
            words="the resolver gives no answer" if peer.name in names.silent else words,
            wanted=", ".join(expected) or peer.address,
            cause="deepspeed and mpirun log in to the names of their hostfile, torchrun's c10d "
            "rendezvous uses the first node's; where a node's own name means loopback, as in "
            "Debian's line 127.0.1.1, gloo listens where no other node can connect",
            fix=fix,
            fixable=other is None
            and not hosts.is_mount
            and (not has_line or installers is not None)
            and bool(expected)
            and hosts.block.is_whole,
            kind="line" if other else "installers" if installers else "",
            wants="the addresses that the inventory has",
            fixes=fixes,
        )


def _line_for(has_line: bool, installers: HostsLine | None) -> str:
    if installers is not None:
        comment = f"a # before line {installers.line} of {HOSTS}, which Debian's installer wrote"
        return comment if has_line else f"{comment}, and a line for it"
    if has_line:
        return f"look at the line hosts: in /etc/nsswitch.conf, and at DNS: {HOSTS} is right"
    return f"a line for it in {HOSTS}"


def _lines_for(have_lines: bool) -> str:
    if have_lines:
        return f"look at the line hosts: in /etc/nsswitch.conf, and at DNS: {HOSTS} is right"
    return f"a line for each in {HOSTS}"


def _in_the_way(
    peer: Peer, expected: tuple[str, ...], lines: tuple[HostsLine, ...], has_line: bool
) -> HostsLine | None:
    """Return which line of others decides: of several lines a loopback address comes first.

    Of two other addresses the resolver may prefer either, whichever line is first: it sorts them by
    the networks of this node. That shows only beside our own line.
    """
    for line in lines:
        address, *names = line.text.split("#")[0].split()
        if peer.name not in names or address in expected:
            continue
        if is_loopback(address) or has_line:
            return line
    return None


@check("ssh.block-outdated")
def block_outdated(at: At) -> Iterator[Fault]:
    nodes = at.nodes
    if at.wanted.ssh is None or at.wanted.ssh.mesh is not True:
        return
    ssh = at.node.ssh
    if nodes.peers and not has_others(nodes):
        # The last node needs no lines: those of the nodes that were taken out go, and its own.
        nodes = replace(nodes, peers=(), made={})
    if reads_home(ssh):
        alike = with_one_user(at.node, nodes)
        yield from _outdated(AUTHORIZED, ssh.authorized, {}, alike, _of_user(ssh, nodes, alike))
    if ssh.known_hosts is not None:
        # What is not known here yet is a finding of another rule.
        unverified = {
            each.peer
            for check in (unknown_keys, changed_keys)
            for each in check(at.node, at.wanted, nodes)
        }
        known = _less(known_wanted(at.node, nodes), unverified)
        yield from _outdated(KNOWN_HOSTS, ssh.known_hosts.block, known, nodes)
    if ssh.hosts is not None:
        healed = {each.peer for each in unresolved(at.node, at.wanted, nodes) if each.fixable}
        hosts = _less(hosts_wanted(at.node, nodes), healed)
        for fault in _outdated(HOSTS, ssh.hosts.block, hosts, nodes):
            yield replace(fault, fixable=fault.fixable and not ssh.hosts.is_mount)


def _less(lines: Lines, nodes: Collection[str]) -> Lines:
    return {name: each for name, each in lines.items() if name not in nodes} if nodes else lines


def _of_user(ssh: SshState, nodes: Nodes, alike: Nodes) -> str:
    if ssh.account is None or alike is nodes:
        return _AS_THEY_ARE
    return f"the nodes of the inventory whose training user is {ssh.account.user}"


def _outdated(
    path: str, block: Block | None, lines: Lines, nodes: Nodes, wanted: str = _AS_THEY_ARE
) -> Iterator[Fault]:
    # A node that we never wrote to has nothing outdated: others' lines say what is known there.
    if block is None or (block.is_whole and not block.lines):
        return
    gone = left_over(block, nodes)
    other = [node for node, text in lines.items() if block.by_node.get(node) != text]
    if block.is_whole and not gone and not other:
        return
    outdated = f"lines of {ranges(gone)}" if gone else f"not the lines of {ranges(other)}"
    yield Fault(
        subject=Path(path),
        found=outdated if block.is_whole else "gpu-node's block, without its last line",
        wanted=wanted,
        who="user" if path == AUTHORIZED else "administrator",
        fix="rewrite gpu-node's block" if block.is_whole else "remove the rest of gpu-node's block",
        fixable=block.is_whole,
        severity=None if block.is_whole else "error",
    )


@check("ssh.no-login")
def no_login(at: At) -> Iterator[Fault]:
    if at.node.ssh.logins is None or not has_mesh(at.wanted, at.nodes):
        return
    failed: dict[str, list[Login]] = {}
    for login in at.node.ssh.logins:
        if login.code != 0:
            failed.setdefault(login.node, []).append(login)
    if failed:
        heals = _Repairs(at)
        links = (_refused(peer, failed.get(peer.name), heals) for peer in at.nodes.peers)
        yield from faults(at.nodes, (link for link in links if link is not None))


def _refused(peer: Peer, failed: list[Login] | None, repairs: _Repairs) -> Link | None:
    """Return what is wrong with the logins to a peer that failed; None where none did."""
    if not failed:
        return None
    state = state_of(peer.name, repairs.state, repairs.nodes)
    if state is not None and state.left_out:
        return None  # the inventory keeps that node out of the mesh
    # As another user no repair of the mesh lets it in.
    other, one = _other_user(peer, repairs.state, state) if state is not None else ("", "")
    # Nor where ssh's own configuration leads elsewhere.
    led = detour(repairs.state.ssh, peer)
    heals = state is not None and not other and not led and repairs.help(peer)
    punished = any(each.is_punished for each in failed)
    own = "; ".join(f"by {each.how}: {_outcome(each)}" for each in failed)
    who: Who = "user"
    if heals:
        kind, fix, fixes, who = "", CONVERGE, CONVERGE_ALL, "deploy"
    elif other:
        kind, fix, fixes = other, one, one
    else:
        kind, fix, fixes, who = _next_step(peer, failed, repairs)
    return Link(
        peer=peer.name,
        words=other or _without_name(own, peer),
        wanted="a login without a password",
        cause=_PUNISHED if punished else _WAITS if peer.gpus != 0 else _COPIES,
        fix=fix,
        fixable=heals,
        severity=None if state is not None and peer.gpus != 0 else "warning",
        kind=kind,
        fixes=fixes,
        own="" if other else own,
        who=who,
        explained_by=() if other else None,
    )


_WORD = re.compile(r"[\w.-]+|[^\w.-]+")


def _without_name(words: str, peer: Peer) -> str:
    """Return ssh's words with NODE in place of a node: those about others are then the same."""
    parts = _WORD.findall(words.replace(peer.address, "NODE"))
    return "".join("NODE" if part == peer.name else part for part in parts)


class _Repairs:
    """What stands between a node and its peers, and is repaired by a run with both of them."""

    def __init__(self, at: At) -> None:
        state, nodes = at.node, at.nodes
        self.state, self.wanted, self.nodes = state, at.wanted, nodes
        own = (*permissions(at), *key_missing(at))
        self._here = any(each.fixable for each in own)
        self._peers = {
            each.peer
            for check in (unknown_keys, changed_keys, unresolved, wrong_ports)
            for each in check(state, at.wanted, nodes)
            if each.fixable
        }
        self._itself = nodes.itself
        states = nodes.states
        if states.get(nodes.name) is not state:
            states = {**states, nodes.name: state}
        self._states = states

    def help(self, peer: Peer) -> bool:
        """Whether one of them is between the node and that peer."""
        if self._here or peer.name in self._peers:
            return True
        there = self._states.get(peer.name, self.state)
        other = Nodes(peer.name, self.nodes.peers, self._states)
        if any(
            permission.fixable for permission in permissions(At("ssh", there, self.wanted, other))
        ):
            return True
        let_in = refusal(self._itself, there, other) if self._itself is not None else None
        return let_in is not None and let_in.fixable


@check("ssh.logins-partial")
def logins_partial(at: At) -> Iterator[Fault]:
    count = len(at.nodes.peers)
    if count <= FULL_MESH or not has_mesh(at.wanted, at.nodes) or not at.node.ssh.logins:
        return
    first, tried, is_every = of_run(_tried, at.node, at.nodes)
    if first != at.nodes.name or is_every:
        return  # once a report
    yield Fault(
        subject="logins",
        found=f"{tried} of {count * count} logins between nodes tried",
        wanted="every login tried",
    )


def _tried(nodes: Nodes) -> tuple[str, int, bool]:
    """Return the first node that tried logins, how many all nodes tried, and if all were asked for.

    Then not only one node tried all: results that are missing are the findings of their nodes.
    """
    logins = {peer.name: state.logins for peer, state in asked(nodes) if state.logins}
    places = {
        name: {each.node for each in tried or ()} & nodes.once(names_of)
        for name, tried in logins.items()
    }
    counts = [len(place) for place in places.values()]
    return next(iter(logins), ""), sum(counts), counts.count(len(nodes.peers)) > 1


def _outcome(login: Login) -> str:
    if login.is_punished:
        rest = "; by address: not tried" if login.how == "name" else ""
        return f"{login.output}{rest}"
    if login.code == 255 and login.output:
        return login.output
    if login.code in (124, 137):
        return "no answer in time"
    return f"exit {login.code}" + (f", {login.output}" if login.output else "")


# The node's sshd knows nothing of such a login: another host answers, or one with another key.
_OTHER_HOST = "Host key verification failed"
# Nothing answers (ssh's resolver, and the errors of connect(2)).
_UNREACHED = re.compile(
    r"Could not resolve hostname|Connection refused|timed out|No route to host|unreachable"
)
# Settings that may hold for a node's address alone.
_LEADING = (*PROXIES, "hostname", *OFFERS)


def _next_step(peer: Peer, failed: list[Login], repairs: _Repairs) -> tuple[str, str, str, Who]:
    """Return the kind of a failure that no run repairs, what to do about it, and who does that.

    The second of both texts is about several peers.
    """
    there = state_of(peer.name, repairs.state, repairs.nodes)
    if there is None:
        fix = f"{peer.name} was not part of this run, or gave no answer: run again with it"
        fixes = "they were not part of this run, or gave no answer: run again with them"
        return "unasked", fix, fixes, "user"
    if any(each.is_punished for each in failed):
        fix = (
            "wait until the penalty ends (10 minutes at most, unless sshd_config sets max) and run "
            "again; PerSourcePenaltyExemptList in {} sshd_config exempts addresses"
        )
        return "punished", fix.format(f"{peer.name}'s"), fix.format("their"), "user"
    leads = ""
    if any("bad configuration option" in each.output for each in failed):
        leads = "correct that ssh configuration: no login works until then"
    elif leads := detour(repairs.state.ssh, peer):
        leads = f"look at {leads}"
    elif [each.how for each in failed] == ["address"]:
        leads = set_by(repairs.state.ssh, _LEADING)
        leads = leads and f"look at {leads}: a login by address may reach another host"
    if not leads and any(_OTHER_HOST in each.output for each in failed):
        look = "on this node, see to which host getent hosts {} leads, and which key it has here"
        return "host key", look.format(peer.name), look.format("NODE"), "user"
    if not leads and all(_UNREACHED.search(each.output) for each in failed):
        look = (
            "on this node, see whether getent hosts {0} has the right address, and whether "
            "ssh -v {0} true reaches the right port; a firewall may be between them"
        )
        return "unreached", look.format(peer.name), look.format("NODE"), "administrator"
    if leads:
        return leads, f"on this node, {leads}", f"on this node, {leads}", "user"
    account = there.account or repairs.state.ssh.account
    user = account.user if account is not None else "USER"
    if any(each.is_account_refused for each in failed):
        denies = there.server.denies if there.server is not None else ()
        look = ", or ".join(denies) or (
            f"look for /etc/nologin, at chage -l {user}, at the account lines of /etc/pam.d/sshd "
            "(pam_access, pam_exec), and at what its sshd logs"
        )
        kind = f"account {user} {denies}"
        return kind, f"on {peer.name}: {look}", f"on each of them: {look}", "administrator"
    itself = repairs.nodes.itself
    addresses = comes_from(itself, repairs.state.ssh) if itself is not None else ()
    address = next(iter(addresses), "ADDRESS")
    look = (
        f"sshd -T -C user={user},host={repairs.nodes.name},addr={address} | grep -iE "
        "'permitrootlogin|pubkey|allow|deny|authorizedkeys', and what its sshd logs about the login"
    )
    return f"sshd {user}", f"on {peer.name}: {look}", f"on each of them: {look}", "administrator"


def _other_user(peer: Peer, state: NodeState, there: SshState) -> tuple[str, str]:
    """Say as which user ssh logs in to a node whose training user is another, and what to do.

    Both are empty where it is the same.
    """
    parsed, own = client(state.ssh, peer), state.ssh.account
    if own is None or there.account is None:
        return "", ""
    mine, theirs = own.user, there.account.user
    user = parsed.user if parsed is not None else mine
    if mine != theirs:
        return f"training user {mine} here, {theirs} there: ssh logs in as {user}", (
            "in the inventory, give all of them one training user that each of them has, such as "
            f"launcher: {{user: {mine}}} or ssh: {{user: {mine}}}: no run lets a key in as another "
            "user"
        )
    if user == mine:
        return "", ""
    look = set_by(state.ssh, ("user",)) or "the settings of its ssh"
    words = f"ssh logs in as {user}, the training user is {theirs}"
    return words, f"on this node, look at {look}"
