"""Whether a job can start, and on which nodes: what of a report's problems stops one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpu_node.drift.engine.blocking import LAUNCHES, blocks_a_job, hides_what_blocks, kinds
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.rule import Stops
from gpu_node.drift.engine.shown_facts import Has, kind
from gpu_node.drift.engine.subject import Logins
from gpu_node.drift.ranges import gathered
from gpu_node.drift.report.matrix import node_of
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.problems import problems
from gpu_node.inventories.wanted import NodeWanted


@dataclass(frozen=True)
class Start:
    """The nodes on which a job can start; what stops it on others, and why it is unknown on some.

    Both are problems by their ids, or other words, each with its nodes. `barred` are the nodes that
    only launch, with what keeps their launcher from the logins that it needs.
    """

    nodes: tuple[str, ...]
    stopped: Mapping[str, tuple[str, ...]]
    unknown: Mapping[str, tuple[str, ...]]
    barred: Mapping[str, tuple[str, ...]]


def start(report: Report) -> Start:
    """Return where a job can start: on which nodes no finding stops one that uses all nodes.

    These are errors of rules that stop a job (`Rule.stops`), those about logins to a node that was
    not read left out, and nodes that lack what a job needs (`Has.starts`). It is unknown where
    something could not be read.
    """
    hosts = for_jobs(report)
    stopping = kinds(len(hosts))
    unread = frozenset(name for name, host in hosts.items() if host.error is not None)
    found = [(each.id, *one) for each in problems(hosts) for one in each.all]
    stop = [each for each in found if _stops(each[2], stopping, unread)]
    stopped = [(why, node) for why, node, _ in stop]
    reported = {(node, word) for _, node, each in stop for word in (each.rule, each.area)}
    unknown = [(why, node) for why, node, finding in found if hides_what_blocks(finding)]
    for name, host in hosts.items():
        for has in lacks(host):
            if has.starts is None:
                unknown.append((has.words, name))
            elif (name, has.rule) not in reported:
                stopped.append((has.lacks or has.words, name))
    held = {node for _, node in stopped}
    left_out = held | {node for _, node in unknown}
    return Start(
        tuple(name for name in hosts if name not in left_out),
        _by_reason(stopped),
        _by_reason(each for each in unknown if each[1] not in held),
        _by_reason(_barred(report, unread)),
    )


def _barred(report: Report, unread: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield what keeps a node that only launches from the logins of its launcher."""
    launching = {
        name: host
        for name, host in report.hosts.items()
        if not host.runs_jobs and host.judged and _logs_in(host.judged.wanted)
    }
    for problem in problems(launching):
        for node, finding in problem.all:
            if _stops(finding, LAUNCHES, unread):
                yield problem.id, node


def _logs_in(wanted: NodeWanted) -> bool:
    return wanted.launcher is not None and wanted.launcher.logs_in


def for_jobs(report: Report) -> dict[str, HostReport]:
    """Return the nodes that are for jobs: all but those with `gpu: none`."""
    return {name: host for name, host in report.hosts.items() if host.runs_jobs}


def _by_reason(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    return {why: tuple(dict.fromkeys(names)) for why, names in gathered(pairs).items()}


def _stops(finding: Finding, stopping: frozenset[Stops], unread: frozenset[str]) -> bool:
    about = finding.about
    between = isinstance(about, Logins) and about.names <= unread
    return blocks_a_job(finding, stopping) and not between


def lacks(host: HostReport) -> list[Has]:
    """Return what no finding reports: that a node was not read, or has not what a job needs."""
    if host.error is not None:
        return [Has(host.status, starts=None)]
    node = node_of(host)
    return [each for each in kind(node) if not each.starts] if node else []
