"""The nodes on which a job can start: without an error, and all of them log in to each other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_node.drift.engine.blocking import blocks_a_job, hides_what_blocks, kinds
from gpu_node.drift.engine.finding import Finding, before_found
from gpu_node.drift.engine.rule import Stops
from gpu_node.drift.engine.subject import Logins
from gpu_node.drift.hostfile import wrong_count
from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.model import HostReport
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.together import Graph, together
from gpu_node.facts.node import NodeState
from gpu_node.inventories.plurals import counted


@dataclass(frozen=True)
class Healthy:
    """The nodes that are left, in the inventory's order, and why each other one is not.

    `is_largest` is whether no larger set can exist. `untried` are the pairs of these nodes between
    which no login was tried, either way.
    """

    nodes: tuple[str, ...]
    left_out: Mapping[str, str]
    is_largest: bool
    untried: int


def healthy(hosts: Mapping[str, HostReport], seen: Mapping[str, Seen]) -> Healthy:
    """Return the largest set of nodes on which a job can start, by a report and what it is of."""
    hosts = {name: host for name, host in hosts.items() if host.runs_jobs}
    stopping = kinds(len(hosts))
    reasons = {name: _unfit(name, host, seen[name], stopping) for name, host in hosts.items()}
    fit = [name for name, reason in reasons.items() if not reason]
    apart = _apart(fit, hosts, seen, stopping)
    nodes, is_largest = together(fit, apart)
    for name in (each for each in fit if each not in nodes):
        peers = [each for each in nodes if each in apart[name]]
        reasons[name] = f"failed logins between it and {ranges(peers)}"
    left_out = {name: reason for name, reason in reasons.items() if reason}
    return Healthy(nodes, left_out, is_largest, _untried(nodes, seen))


def _unfit(name: str, host: HostReport, seen: Seen, stopping: frozenset[Stops]) -> str:
    """Return why no job can start on a node, whatever the others are; empty if one can."""
    if host.error is not None:
        return f"{host.status}: {' '.join(host.error.split())}"
    blocking = [
        each
        for each in host.findings
        if (blocks_a_job(each, stopping) and not _peers(name, each)) or hides_what_blocks(each)
    ]
    if blocking:
        first = blocking[0]
        about = before_found(first.subject, name)
        more = f", and {counted(len(blocking) - 1, 'other problem')}" if blocking[1:] else ""
        return f"{first.rule}: {about}{first.found}{more}"
    if name in _failed(seen.state):
        return "no login from it to itself"
    return wrong_count(seen)


def _peers(name: str, finding: Finding) -> frozenset[str]:
    """Return the other nodes between which and a node something is wrong; none: it is its own."""
    about = finding.about
    return about.names - {name} if isinstance(about, Logins) else frozenset()


def _failed(state: NodeState | None) -> set[str]:
    """Return the nodes to which a login failed, by name or by address."""
    logins = (state.ssh.logins if state is not None else None) or ()
    return {each.node for each in logins if each.code != 0}


def _apart(
    fit: list[str],
    hosts: Mapping[str, HostReport],
    seen: Mapping[str, Seen],
    stopping: frozenset[Stops],
) -> Graph:
    """Return for each node those with which it cannot be in one job.

    A login that failed counts also where the inventory turns its rule off.
    """
    pairs: dict[str, set[str]] = {name: set() for name in fit}
    for name in fit:
        findings = [each for each in hosts[name].findings if blocks_a_job(each, stopping)]
        found = {peer for each in findings for peer in _peers(name, each)}
        for peer in (_failed(seen[name].state) | found) & pairs.keys() - {name}:
            pairs[name].add(peer)
            pairs[peer].add(name)
    return {name: frozenset(peers) for name, peers in pairs.items()}


def _untried(nodes: tuple[str, ...], seen: Mapping[str, Seen]) -> int:
    tried = {name: set(_tried(seen[name].state)) for name in nodes}
    return sum(
        other not in tried[name] and name not in tried[other]
        for place, name in enumerate(nodes)
        for other in nodes[place + 1 :]
    )


def _tried(state: NodeState | None) -> Iterator[str]:
    for each in (state.ssh.logins if state is not None else None) or ():
        yield each.node
