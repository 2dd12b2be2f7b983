"""The first and last lines of a report for people: who read the facts, what jobs have, counts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.text import Text

from gpu_node.drift.driver.rules_between import NO_DRIVER
from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.matrix import node_of
from gpu_node.drift.report.model import HostReport, Report, Summary
from gpu_node.drift.report.problems import Problem
from gpu_node.drift.report.signs import SEVERITY_STYLES, of_severity
from gpu_node.facts.node import NodeState
from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import counted

# More kinds of node than these are named, not described.
_MOST_KINDS = 4
_LONGEST = 120
NO_GPU, NO_TORCH = "no GPU", "no PyTorch found"
_CPU_NODE = "not for jobs (gpu: none)"
_FACTS = {each.name: each for each in FACTS}


def of_jobs(report: Report) -> Iterator[Text]:
    """Yield a line, and an empty one, where Slurm jobs read the facts."""
    if not report.in_jobs:
        return
    where = visible(ranges(report.in_jobs, report.hosts))
    seen = "Slurm jobs read these facts: user, cgroup, limits, environment and /dev/shm are a job's"
    yield Text(f"{seen} ({where}); a login may have others.", style="bold")
    yield Text()


def outline(
    hosts: Mapping[str, HostReport], elsewhere: Mapping[str, str] | None = None
) -> Iterator[Text]:
    """Yield a line for each kind of node: GPUs, driver, PyTorch and NCCL, the most frequent first.

    A node that could not be read is in none of them. `elsewhere` has the environments
    of nodes with a PyTorch that the probe did not ask.
    """
    kinds: dict[str, list[str]] = {}
    for name, host in hosts.items():
        if (node := node_of(host)) is not None:
            has = kind(node, (elsewhere or {}).get(name, "")) if host.runs_jobs else [_CPU_NODE]
            words = ", ".join(has)
            kinds.setdefault(words, []).append(name)
    described = sorted(kinds.items(), key=lambda each: -len(each[1]))
    for words, names in described[:_MOST_KINDS]:
        yield Text(f"{visible(ranges(names, hosts))}: {visible(words)}")
    if rest := [name for _, names in described[_MOST_KINDS:] for name in names]:
        yield Text(f"{visible(ranges(rest, hosts))}: others, see --facts", style="dim")


def closing(report: Report, counts: str) -> Text:
    """Return the last line of a report: one without drift does not hide that a GPU was missing."""
    hosts = report.hosts
    if any(host.status != "ok" for host in hosts.values()):
        return Text(counts, style="bold")
    nodes = {name: node_of(host) for name, host in hosts.items() if host.runs_jobs}
    without = [name for name, node in nodes.items() if node and NO_GPU in _hardware(node)]
    if not without:
        return Text(counts, style="bold green")
    where = "" if len(without) == len(hosts) else f" on {visible(ranges(without, hosts))}"
    return Text(f"{counts} in what was judged; no GPU was found{where}", style="bold")


def statuses(total: Summary, drift: str = "drift") -> list[str]:
    """Return how many nodes have each status that any has; `drift` is its word."""
    named = {"ok": total.ok, drift: total.drift}
    named |= {"unreachable": total.unreachable, "unreadable": total.unreadable}
    return [f"{count} {status}" for status, count in named.items() if count]


def counts(report: Report, listed: Sequence[Problem]) -> Text:
    """Return how many nodes have each status, and how many problems and findings there are."""
    total = report.summary
    severities = [
        of_severity(count, severity)
        for severity in SEVERITY_STYLES
        if (count := sum(each.severity == severity for each in listed))
    ]
    counts = counted(len(listed), "problem", none="no")
    if listed:
        findings = counted(sum(total.findings.values()), "finding")
        counts += f" ({', '.join(severities)}), {findings}"
    line = f"{counted(total.hosts, 'node', none='no')}, {', '.join(statuses(total, 'with drift'))}"
    if listed or not (total.unreachable or total.unreadable):
        line += f": {counts}"
    return closing(report, line)


def kind(node: NodeState, elsewhere: str = "") -> list[str]:
    """Return what a node has, in words: GPUs, driver, PyTorch and NCCL."""
    return [*_hardware(node), *_software(node, elsewhere)]


def _hardware(node: NodeState) -> Iterator[str]:
    gpus, driver = _value("driver.gpus", node), _value("driver.version", node)
    devices = len(node.driver.devices or ())
    if gpus is None:
        yield "GPUs unreadable"
    elif gpus != "none":
        yield gpus
    elif devices:
        yield f"{counted(devices, 'GPU')} of which none answers"
    else:
        yield NO_GPU
    if driver is None:
        yield "driver unreadable"
    elif driver not in NO_DRIVER:
        yield f"driver {driver}"
    elif devices or gpus != "none":
        yield "no driver" if driver == NO_DRIVER[0] else f"driver {driver}"


def _software(node: NodeState, elsewhere: str) -> Iterator[str]:
    if absent := node.nccl.absent:
        several = len(absent) > 1
        does = "do" if several else "does"
        yield f"environment{'s' * several} {' and '.join(absent)} {does} not exist"
    old = node.nccl.old_pythons
    for prefix, python in old.items():
        yield f"environment {prefix} not read (Python {python})"
    if absent or old:
        node = _without(node, [*absent, *old])
        if not node.nccl.environments:
            return
    torch, nccl = _value("nccl.torch", node), _value("nccl.loaded", node)
    if not _FACTS["nccl.torch"].is_asked(node):
        yield f"PyTorch in {elsewhere} (not read)" if elsewhere else NO_TORCH
    elif torch is None:
        yield "PyTorch unreadable"
    elif torch == "none":
        yield NO_TORCH
    else:
        yield f"PyTorch {torch}"
        yield "NCCL unreadable" if nccl is None else f"NCCL {nccl}" if nccl != "none" else "no NCCL"


def _without(node: NodeState, absent: Collection[str]) -> NodeState:
    """Return a node as it would be if no one had named the environments that it does not have."""
    known = node.nccl.environments.items()
    there = {prefix: each for prefix, each in known if prefix not in absent}
    nccl = node.nccl.model_copy(update={"environments": there})
    return node.model_copy(update={"nccl": nccl})


def _value(name: str, node: NodeState) -> str | None:
    fact: Fact = _FACTS[name]
    value = fact.value(node)
    return value if value is None else value[:_LONGEST]
