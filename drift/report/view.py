"""What a report shows, made once as plain data; a format only writes it, and escapes it.

Names and texts of nodes are as they came. A `Line` is visible already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from gpu_node.drift.engine.finding import OffFinding, before_found
from gpu_node.drift.engine.shown_facts import kind
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.drift.report import changes
from gpu_node.drift.report.matrix import Column, labels_and_columns, node_of
from gpu_node.drift.report.model import HostReport, Report, Status
from gpu_node.drift.report.problems import (
    Problem,
    chosen,
    leads_to,
    names,
    parts,
    problems,
    repair_of,
    without_root,
)
from gpu_node.drift.report.signs import SEVERITY_STYLES, of_severity
from gpu_node.drift.report.start import Start, for_jobs, lacks, start
from gpu_node.facts.node import NodeState
from gpu_node.inventories.escape import visible
from gpu_node.inventories.next_command import ASKING, deploy_command, next_command
from gpu_node.inventories.plurals import counted

# More kinds of node than these are named, not described.
_MOST_KINDS = 4
# What a word of `Row.repair` means; {} is what shows the fix.
LEGEND = {
    "deploy": "gpu-node deploy repairs it",
    "partly": "gpu-node deploy repairs a part",
    "manual": "you do, as {} shows",
    "admin": "root does; gpu-node has no root there",
}


class Line(NamedTuple):
    """A line, and its style on a terminal; `depth` is that of a list."""

    words: str
    style: str = ""
    depth: int = 0


class Row(NamedTuple):
    """A problem: its nodes as ranges, whether it is new, who repairs it, and what it says.

    Each of `parts` has the number of its findings. `without_root` is what a user without root can
    do about it, and what root has to do.
    """

    problem: Problem
    nodes: str
    mark: str
    repair: str
    parts: list[tuple[str, int]]
    leads_to: list[str]
    without_root: tuple[str, str]

    @property
    def text(self) -> str:
        """What is wrong in words, a part of each rule first."""
        return "; ".join(words for words, _ in self.parts)

    @property
    def is_repaired(self) -> bool:
        """Whether a deploy repairs any of it."""
        return self.repair in ("deploy", "partly")


class Unread(NamedTuple):
    """An error, and all nodes that were not read because of it."""

    status: Status
    error: str
    nodes: list[str]


@dataclass(frozen=True)
class View:
    """A report as it is shown.

    `only` chooses problems by rule, area or node. `given` are lines in place of the nodes and the
    counts, of a report about one job. `options` are those of a deploy, which the next one is to
    have as well. `elsewhere` has the environments of nodes with a PyTorch that the probe did not
    ask.
    """

    report: Report
    only: Sequence[str] = ()
    given: str = ""
    options: Sequence[str] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def hosts(self) -> Mapping[str, HostReport]:
        """The nodes of the report."""
        return self.report.hosts

    @cached_property
    def problems(self) -> list[Problem]:
        """The problems of all nodes, the worst first."""
        return problems(self.hosts)

    @cached_property
    def rows(self) -> list[Row]:
        """The problems that are shown."""
        shown = chosen(self.problems, self.only) if self.only else self.problems
        by_user = {name for name, host in self.hosts.items() if host.without_root}
        return [
            Row(
                each,
                ranges(each.nodes, self.hosts),
                changes.mark(self.report.changes, each.all),
                repair_of(each, self.hosts),
                parts(each, list(self.hosts)),
                leads_to(each),
                without_root(each, by_user),
            )
            for each in shown
        ]

    @property
    def left_out(self) -> list[Line]:
        """What --only does not choose, and that it chooses nothing where that is so."""
        if not self.only:
            return []
        unread = [name for each in self.unread for name in each.nodes]
        words = [visible(each) for each in self.only if each not in unread]
        lines = []
        if words and not self.rows:
            where = " on the nodes that were read" if unread else ""
            lines.append(Line(f"no problems in {', '.join(words)}{where}", "bold"))
        if left := len(self.problems) - len(self.rows):
            lines += [Line(""), Line(f"--only leaves out {counted(left, 'problem')}", "dim")]
        return lines

    @cached_property
    def unread(self) -> list[Unread]:
        """The nodes that were not read: all of them, or those that `only` names alone."""
        named = self.hosts.keys() & set(self.only)
        is_all = len(named) < len(set(self.only)) or not self.only
        found = gathered(
            ((host.status, host.error), name)
            for name, host in self.hosts.items()
            if host.error and (is_all or name in named)
        )
        return [Unread(*why, nodes) for why, nodes in found.items()]

    @property
    def in_jobs(self) -> list[Line]:
        """That Slurm jobs read the facts, if they did."""
        where = visible(ranges(self.report.in_jobs, self.hosts))
        seen = f"user, cgroup, limits, environment and /dev/shm are a job's ({where})"
        line = f"Slurm jobs read these facts: {seen}; a login may have others."
        return [Line(line, "bold")] if where else []

    @property
    def kinds(self) -> list[Line]:
        """Each kind of node: GPUs, driver, PyTorch and NCCL, the most frequent first.

        A node that could not be read is in none of them.
        """
        nodes = {name: node_of(host) for name, host in self.hosts.items()}
        kinds = gathered((self._kind(name, node), name) for name, node in nodes.items() if node)
        described = sorted(kinds.items(), key=lambda each: -len(each[1]))
        lines = [
            Line(f"{visible(ranges(on, self.hosts))}: {visible(words)}")
            for words, on in described[:_MOST_KINDS]
        ]
        if rest := [name for _, on in described[_MOST_KINDS:] for name in on]:
            lines.append(Line(f"{visible(ranges(rest, self.hosts))}: others, see --facts", "dim"))
        return lines

    def _kind(self, name: str, node: NodeState) -> str:
        if not self.hosts[name].runs_jobs:
            return "not for jobs (gpu: none)"
        return ", ".join(each.words for each in kind(node, self.elsewhere.get(name, "")))

    @cached_property
    def head(self) -> Line:
        """How many nodes have each status, and how many problems and findings there are."""
        if self.given:
            return Line(self.given, "bold")
        total = self.report.summary
        found = counted(len(self.problems), "problem", none="no")
        if self.problems:
            severities = [
                of_severity(count, severity)
                for severity in SEVERITY_STYLES
                if (count := sum(each.severity == severity for each in self.problems))
            ]
            findings = counted(sum(total.findings.values()), "finding")
            found += f" ({', '.join(severities)}), {findings}"
        statuses = ", ".join(self.statuses("with drift"))
        line = f"{counted(total.hosts, 'node', none='no')}, {statuses}"
        if self.problems or not (total.unreachable or total.unreadable):
            line += f": {found}"
        return self.closing(line)

    @property
    def totals(self) -> Line:
        """The same of a report that lists its findings."""
        total = self.report.summary
        counts = [counted(total.hosts, "node"), *self.statuses("drift")]
        findings = [of_severity(count, each) for each, count in total.findings.items() if count]
        return self.closing(f"{', '.join(counts)}; findings: {', '.join(findings) or 'none'}")

    def statuses(self, drift: str) -> list[str]:
        """Return how many nodes have each status that any has; `drift` is its word."""
        total = self.report.summary
        named = {"ok": total.ok, drift: total.drift}
        named |= {"unreachable": total.unreachable, "unreadable": total.unreadable}
        return [f"{count} {status}" for status, count in named.items() if count]

    def closing(self, counts: str) -> Line:
        """Return counts; those without drift do not hide that something was missing: a GPU."""
        if any(host.status != "ok" for host in self.hosts.values()):
            return Line(counts, "bold")
        lacking = gathered(
            (has.lacks or f"{has.words} was found", name)
            for name, host in for_jobs(self.report).items()
            for has in lacks(host)
            if has.starts is False
        )
        if not lacking:
            return Line(counts, "bold green")
        for words, on in lacking.items():
            where = "" if len(on) == len(self.hosts) else f" on {visible(ranges(on, self.hosts))}"
            counts += f" in what was judged; {words}{where}"
        return Line(counts, "bold")

    @cached_property
    def off(self) -> list[Line]:
        """What `checks` turns off: how much, a line for each entry (1), and each finding (2)."""
        entries = gathered(
            (switch(each), (name, each))
            for name, host in self.hosts.items()
            for each in host.off
            if not self.only or names(self.only, each.rule) or name in self.only
        )
        total = counted(sum(map(len, entries.values())), "finding")
        lines = [Line(f"{total} off by checks in the inventory (not repaired, no failure):")]
        for entry, found in entries.items():
            rules = dict.fromkeys(each.rule for _, each in found)
            on = ranges(dict.fromkeys(node for node, _ in found), self.hosts)
            words = f"{entry}: {counted(len(found), 'finding')} on {on}: {', '.join(rules)}"
            lines.append(Line(visible(words), depth=1))
            for node, each in found:
                about = before_found(each.subject, node)
                lines.append(Line(visible(f"{node}: {each.rule}: {about}{each.found}"), depth=2))
        return lines if entries else []

    @property
    def changes(self) -> list[Line]:
        """What changed since an earlier report."""
        found = self.report.changes
        return [] if found is None else [Line(*each) for each in changes.lines(found, self.hosts)]

    @cached_property
    def facts(self) -> tuple[list[str], list[Column]]:
        """What the facts are called, and a column for each node."""
        return labels_and_columns(self.hosts)

    @cached_property
    def start(self) -> Start:
        """On which nodes a job can start."""
        return start(self.report)

    @property
    def answer(self) -> list[Line]:
        """Whether a job can start; a report about one job does not say so."""
        if self.given:
            return []
        found, nodes = self.start, for_jobs(self.report)
        if not nodes:
            return [Line("No node is for jobs (gpu: none)", "bold")]
        count, total = len(found.nodes), len(nodes)
        line = f"A job can start on {count} of {total} node{'s' * (total != 1)}"
        for word, reasons in (("stopped by", found.stopped), ("unknown", found.unknown)):
            listed = [
                why if len(on) == total else f"{why} ({visible(ranges(on))})"
                for why, on in reasons.items()
            ]
            line += f"; {word}: {', '.join(listed)}" * bool(listed)
        for why, on in found.barred.items():
            line += f"; not from {visible(ranges(on))} (gpu: none): {why}"
        return [Line(line, "bold green" if count == total else "bold")]

    @property
    def why(self) -> str:
        """Why the report ends with 1 where no node and no area says so; --since has a line."""
        total = self.report.summary
        if self.report.exit_code() != 1 or total.unreachable or total.unreadable:
            return ""
        unknown = visible(", ".join(each.fact for each in self.report.unknown))
        return f"exit status 1: not known on all nodes, so not compared: {unknown}"

    def legend(self, shows: str) -> list[tuple[str, str]]:
        """Return the words of `repair` that occur, with their meaning; `shows` has the fix."""
        words = {each.repair for each in self.rows}
        return [(word, text.format(shows)) for word, text in LEGEND.items() if word in words]

    @property
    def repair(self) -> str:
        """The command that repairs what is shown; empty where there is none."""
        if not any(each.is_repaired for each in self.rows):
            return ""
        asking = [ASKING] if self.with_password else []
        return deploy_command(self.report.inventory, [*self.options, *asking])

    @property
    def with_password(self) -> str:
        """The command that reports once more, where sudo asks for a password; else empty."""
        if self.given or not any(host.lacks_password for host in self.hosts.values()):
            return ""
        return next_command("drift", self.report.inventory, ASKING)


def switch(finding: OffFinding) -> str:
    """Return the entry of `checks` that turns a finding off, with its day and its reason."""
    if finding.until is None:
        return f"{finding.entry} (false)"
    return f"{finding.entry} (until {finding.until}: {finding.reason})"
