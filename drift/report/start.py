"""Whether a job can start, and on which nodes: what of a report's problems stops one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rich.text import Text

from gpu_node.drift.driver.rules_gpus import no_gpu
from gpu_node.drift.engine.blocking import blocks_a_job, hides_what_blocks, kinds
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.rule import Stops
from gpu_node.drift.engine.subject import Logins
from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.matrix import node_of
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.outline import NO_GPU, NO_TORCH, kind
from gpu_node.drift.report.problems import problems
from gpu_node.inventories.escape import visible


@dataclass(frozen=True)
class Start:
    """The nodes on which a job can start; what stops it on others, and why it is unknown on some.

    Both are problems by their ids, or other words, each with its nodes.
    """

    nodes: tuple[str, ...]
    stopped: Mapping[str, tuple[str, ...]]
    unknown: Mapping[str, tuple[str, ...]]


def start(report: Report) -> Start:
    """Return where a job can start: on which nodes no finding stops one that uses all nodes.

    These are errors of rules that stop a job (`Rule.stops`), those about logins to a node that was
    not read left out, and nodes without a GPU. It is unknown where something could not be read, and
    on a node without a PyTorch: its jobs may run in containers.
    """
    hosts = for_jobs(report)
    stopping = kinds(len(hosts))
    unread = frozenset(name for name, host in hosts.items() if host.error is not None)
    found = [(each.id, *one) for each in problems(hosts) for one in each.all]
    bare = [(why, name) for name, host in hosts.items() for why in _lacks(host)]
    stopped = [(why, node) for why, node, finding in found if _stops(finding, stopping, unread)]
    reported = {node for _, node, finding in found if finding.rule == no_gpu.id}
    stopped += [each for each in bare if each[0] == NO_GPU and each[1] not in reported]
    unknown = [(why, node) for why, node, finding in found if hides_what_blocks(finding)]
    unknown += [each for each in bare if each[0] != NO_GPU]
    held = {node for _, node in stopped}
    return Start(
        tuple(name for name in hosts if name not in held | {node for _, node in unknown}),
        _by_reason(stopped),
        _by_reason(each for each in unknown if each[1] not in held),
    )


def for_jobs(report: Report) -> dict[str, HostReport]:
    """Return the nodes that are for jobs: all but those with `gpu: none`."""
    return {name: host for name, host in report.hosts.items() if host.runs_jobs}


def start_line(report: Report) -> Text:
    """Return the line that answers whether a job can start, the last one of a report."""
    found = start(report)
    nodes = for_jobs(report)
    count, total = len(found.nodes), len(nodes)
    line = f"A job can start on {count} of {total} node{'s' * (total != 1)}"
    if found.stopped:
        line += f"; stopped by: {_listed(found.stopped, nodes)}"
    if found.unknown:
        line += f"; unknown: {_listed(found.unknown, nodes)}"
    return Text(line, style="bold green" if count == total else "bold")


def _by_reason(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    nodes: dict[str, dict[str, None]] = {}
    for why, node in pairs:
        nodes.setdefault(why, {})[node] = None
    return {why: tuple(names) for why, names in nodes.items()}


def _listed(reasons: Mapping[str, tuple[str, ...]], nodes: Collection[str]) -> str:
    """Return reasons, each with its nodes where they are not all."""
    return ", ".join(
        why if len(names) == len(nodes) else f"{why} ({visible(ranges(names))})"
        for why, names in reasons.items()
    )


def _stops(finding: Finding, stopping: frozenset[Stops], unread: frozenset[str]) -> bool:
    about = finding.about
    between = isinstance(about, Logins) and about.names <= unread
    return blocks_a_job(finding, stopping) and not between


def _lacks(host: HostReport) -> list[str]:
    """Return what no finding reports: that a node was not read, or has no GPU or no PyTorch."""
    if host.error is not None:
        return [host.status]
    node = node_of(host)
    return [each for each in kind(node) if each in (NO_GPU, NO_TORCH)] if node else []
