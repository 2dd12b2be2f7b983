"""The report as data: what `--format json` writes, and what every other form is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, datetime, timezone
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import Field, InstanceOf, PlainSerializer

from gpu_node.drift.engine.check import judge
from gpu_node.drift.engine.compare import Difference, differences
from gpu_node.drift.engine.finding import Finding, OffFinding, Severity
from gpu_node.drift.engine.judgement import Judgement
from gpu_node.drift.engine.nodes import Judged, Nodes
from gpu_node.drift.engine.registry import RULES, is_unread, why_not_judged
from gpu_node.drift.engine.subject import RootOnly
from gpu_node.drift.engine.switches import switch_of
from gpu_node.drift.report.changes import Changes, Part
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.node import NodeState

Status = Literal["ok", "drift", "unreachable", "unreadable"]


class Tool(Part):
    """The program that wrote the report."""

    name: str
    version: str


# Whole lists of files, packed: the report has their number, bytes and digest. And docker's whole
# daemon.json and the files of a job, which may have secrets.
_LEFT_OUT: dict[str, Any] = {
    "unreadable": True,
    "shm": {"docker": {"daemons": {"__all__": {"text"}}}},
    "job": {"files": {"__all__": {"text"}}},
    "workspace": {
        "trees": {"__all__": {"packed"}},
        "source": {"packed"},
        "sources": {"__all__": {"packed"}},
    },
}
PlainFacts = dict[str, dict[str, Any]]


def _plain(facts: NodeState | PlainFacts) -> PlainFacts:
    """Return facts in plain types, as the JSON has them; only that needs them."""
    if isinstance(facts, NodeState):
        return facts.model_dump(mode="json", exclude=_LEFT_OUT)
    return facts


Facts = Annotated[
    PlainFacts | NodeState,
    Field(union_mode="left_to_right"),
    PlainSerializer(_plain, return_type=PlainFacts),
]


class HostReport(Part):
    """One node: its status, the reason when nothing could be read, its facts and findings."""

    status: Status
    error: str | None = None
    facts: Facts = Field(default_factory=dict)
    findings: list[Finding] = Field(default_factory=list)
    # What `checks` of the inventory turns off; it counts neither for the status nor as a failure.
    off: list[OffFinding] = Field(default_factory=list)
    # The Slurm job that read its facts: they are what a job sees. None where a login read them.
    slurm_job: int | None = None
    # Whether its facts were read as a user who is not root and has no sudo; not part of the JSON.
    without_root: bool = Field(default=False, exclude=True)
    # Whether sudo asks for a password that the command was not given. No part of the JSON report.
    lacks_password: bool = Field(default=False, exclude=True)
    # Whether it is for jobs: it is not with `gpu: none`; not part of the JSON.
    runs_jobs: bool = Field(default=True, exclude=True)
    # What was judged of it; None: nothing, or its findings are a part. Not part of the JSON.
    judged: InstanceOf[Judged] | None = Field(default=None, exclude=True, repr=False)

    def why_unknown(self, rule: str) -> str:
        """Return why the node may have what a rule looks for, though it found nothing; or nothing.

        A rule may look at any value of its area.
        """
        if (node := self.judged) is None:
            return f"the node is {self.status}"
        if why := why_not_judged(rule, node):
            return why
        is_alone = node.nodes.others and len(node.nodes.states) < 2
        if is_alone and rule in RULES and RULES[rule].compares:
            return "no other node was read"
        area = rule.partition(".")[0]
        unread = [
            *(
                f"{each.section}: {each.reason}"
                for each in node.state.unreadable
                if each.area == area
            ),
            *(
                f"{each.subject}: {each.found}"
                for each in self.findings
                if each.rule == f"{area}.unreadable"
            ),
        ]
        return unread[0] if unread else ""


class OfRule(NamedTuple):
    """The nodes with a finding of a rule, those without one, and the others with the reason.

    `noted` has those of which the rule only notes something, such as what it cannot determine.
    """

    found: list[str]
    clear: list[str]
    unknown: dict[str, str]
    noted: dict[str, str]


class Summary(Part):
    """How many nodes have each status, how many findings each severity."""

    hosts: int
    ok: int
    drift: int
    unreachable: int
    unreadable: int
    findings: dict[Severity, int]
    # How many findings `checks` of the inventory turns off.
    off: int = 0


class Report(Part):
    """The whole report, schema version 1."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    tool: Tool
    inventory: str
    # ISO 8601, UTC.
    generated: str
    hosts: dict[str, HostReport]
    differences: list[Difference]
    summary: Summary
    # What changed since an earlier report; the JSON of a report without --since does not have it.
    changes: Changes | None = None
    # The day of the judgement, in this machine's time zone.
    day: date = Field(default_factory=date.today, exclude=True, repr=False)

    def part(self, areas: Collection[str] | None, nodes: Collection[str] | None) -> Report:
        """Return the report of some areas and some nodes alone; None: of all."""
        return self.kept(
            lambda name, each: areas is None or each.area in areas,
            [name for name in self.hosts if nodes is None or name in nodes],
        )

    def kept(self, keep: Callable[[str, Finding], bool], nodes: Collection[str]) -> Report:
        """Return the report of some nodes, with the findings, also those off, that `keep` keeps."""
        hosts = {name: _less(self.hosts[name], partial(keep, name)) for name in nodes}
        return self.model_copy(update={"hosts": hosts, "summary": _summary(hosts)})

    @property
    def silent(self) -> dict[str, str]:
        """The nodes that gave no report, and why."""
        return {name: each.error for name, each in self.hosts.items() if each.error is not None}

    def of_rule(self, rule: str) -> OfRule:
        """Return what is known of a rule: its findings, and where it has none."""
        of = OfRule([], [], {}, {})
        least = RULES[rule].severity[0] if rule in RULES else "info"
        for name, host in self.hosts.items():
            own = [each for each in host.findings if each.rule == rule]
            if any(each.severity in (least, "error", "warning") for each in own):
                of.found.append(name)
            elif own:
                of.noted[name] = own[0].found
            elif why := host.why_unknown(rule):
                of.unknown[name] = why
            else:
                of.clear.append(name)
        return of

    @property
    def in_jobs(self) -> list[str]:
        """The nodes whose facts a Slurm job read."""
        return [name for name, host in self.hosts.items() if host.slurm_job is not None]

    @property
    def unknown(self) -> list[Difference]:
        """The facts that are compared, and of which a value is missing: it has a finding."""
        compared = [
            difference
            for difference in self.differences
            if difference.drift or difference.is_everywhere
        ]
        return [each for each in compared if not each.is_known]

    def exit_code(self) -> int:
        """Return 1 where something cannot be determined, else 2 where there is drift, else 0.

        Of a report that is compared with an earlier one, new drift alone counts; where there is
        none, all does.
        """
        if self.summary.unreachable or self.summary.unreadable:
            return 1
        if self.unknown:
            return 1
        return 2 if self.summary.drift and self._is_drift_new() else 0

    def _is_drift_new(self) -> bool:
        """Whether any drift is new; without an earlier report, all is."""
        return (
            self.changes is None
            or self.changes.earlier is None
            or any(
                finding.severity != "info" and self.changes.is_new(name, finding)
                for name, host in self.hosts.items()
                for finding in host.findings
            )
        )


# How a fact is read that a Slurm job's user may not read.
_OVER_SSH = "report without --via slurm, as root or with `ssh: {sudo: true}`"


def report_of(
    inventory: str,
    seen: Mapping[str, Seen],
    judged: Judgement | None = None,
    day: date | None = None,
) -> Report:
    """Return the report about all nodes `seen`, judged by the rules and against each other.

    `judged` is the judgement of these states where there is one. `day` is that of the judgement, by
    default today: what is off until a date depends on it.
    """
    day = day or date.today()
    states = {name: node.state for name, node in seen.items() if node.state is not None}
    nodes = _judged(seen, states, day)
    judged = judged or judge(nodes)
    hosts = {
        name: _host(
            node,
            nodes.get(name),
            judged.findings.get(name, []),
            _off(node, judged.muted.get(name, ()), day),
        )
        for name, node in seen.items()
    }
    return Report(
        tool=Tool(name="gpu-node", version=version("gpu-node")),
        inventory=inventory,
        generated=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        hosts=hosts,
        differences=differences(nodes, judged.drifting),
        summary=_summary(hosts),
        day=day,
    )


def _judged(
    seen: Mapping[str, Seen], states: Mapping[str, NodeState], day: date
) -> dict[str, Judged]:
    made: dict[Any, Any] = {}
    return {
        name: Judged(
            state,
            (node := seen[name]).wanted,
            Nodes(
                name,
                node.nodes,
                states,
                node.allow_deletions,
                made=made,
                via=node.via,
                task=node.task,
                assumed=node.assumed,
                day=day,
            ),
        )
        for name, state in states.items()
    }


def _off(node: Seen, muted: Iterable[Finding], day: date) -> list[OffFinding]:
    """Return findings with what turns them off; one about a rule that broke names that rule."""
    switched = (
        (each, switch_of(each.rule, node.wanted, day) or switch_of(each.subject, node.wanted, day))
        for each in muted
    )
    return [
        OffFinding(**dict(each), entry=by.name, until=by.until, reason=by.reason)
        for each, by in switched
        if by is not None
    ]


def _host(
    node: Seen, judged: Judged | None, findings: list[Finding], off: list[OffFinding]
) -> HostReport:
    if node.state is None:
        status: Status = "unreadable" if node.reached else "unreachable"
        return HostReport(status=status, error=node.error, runs_jobs=not node.wanted.is_cpu_node)
    if node.slurm_job is not None:
        findings = [_of_job(finding) for finding in findings]
    return HostReport(
        status=_status(findings),
        facts=node.state,
        findings=findings,
        off=off,
        slurm_job=node.slurm_job,
        without_root=node.without_root,
        lacks_password=node.lacks_password,
        runs_jobs=not node.wanted.is_cpu_node,
        judged=judged,
    )


def _of_job(finding: Finding) -> Finding:
    """Return a finding of a job: where only root can read a fact, another way of asking may."""
    if not isinstance(finding.about, RootOnly):
        return finding
    words = {"cause": "a Slurm job asks as its user, who is not root", "fix": _OVER_SSH}
    return finding.model_copy(update=words)


def _less(host: HostReport, keep: Callable[[Finding], bool]) -> HostReport:
    kept = [finding for finding in host.findings if keep(finding)]
    status = host.status if host.error is not None else _status(kept)
    off = [finding for finding in host.off if keep(finding)]
    changed = {"findings": kept, "off": off, "status": status, "judged": None}
    return host.model_copy(update=changed)


def _status(findings: list[Finding]) -> Status:
    if any(is_unread(finding.rule) for finding in findings):
        return "unreadable"
    return "drift" if any(finding.severity != "info" for finding in findings) else "ok"


def _summary(hosts: Mapping[str, HostReport]) -> Summary:
    status = Counter(host.status for host in hosts.values())
    severity = Counter(finding.severity for host in hosts.values() for finding in host.findings)
    return Summary(
        hosts=len(hosts),
        ok=status["ok"],
        drift=status["drift"],
        unreachable=status["unreachable"],
        unreadable=status["unreadable"],
        findings={each: severity[each] for each in get_args(Severity)},
        off=sum(len(host.off) for host in hosts.values()),
    )
