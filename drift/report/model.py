"""The report as data: what `--format json` writes, and what every other form is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from drift.among import Among
from drift.check import check
from drift.compare import Difference, differences, settled
from drift.finding import Finding, Severity
from facts.cluster import Peer
from facts.node import NodeState
from inventories.schema import NodeWanted

Status = Literal["ok", "drift", "unreachable", "unreadable"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Tool(_Part):
    """The program that wrote the report."""

    name: str
    version: str


class HostReport(_Part):
    """One node: its status, the reason when nothing could be read, its facts and findings."""

    status: Status
    error: str | None = None
    facts: dict[str, dict[str, Any]] = Field(default_factory=dict)
    findings: list[Finding] = Field(default_factory=list)


class Summary(_Part):
    """How many nodes have each status, how many findings each severity."""

    hosts: int
    ok: int
    drift: int
    unreachable: int
    unreadable: int
    findings: dict[Severity, int]


class Report(_Part):
    """The whole report, schema version 1."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    tool: Tool
    inventory: str
    # ISO 8601, UTC.
    generated: str
    hosts: dict[str, HostReport]
    differences: list[Difference]
    summary: Summary

    def exit_code(self) -> int:
        """Return 1 where something could not be told, else 2 where there is drift, else 0."""
        apart = [difference for difference in self.differences if difference.drift]
        if self.summary.unreachable or self.summary.unreadable:
            return 1
        if not all(difference.is_known for difference in apart):
            return 1
        return 2 if self.summary.drift or apart else 0


# Whole lists of files, packed: the report has their number, bytes and digest.
_LEFT_OUT: dict[str, Any] = {
    "unreadable": True,
    "workspace": {"trees": {"__all__": {"packed"}}, "source": {"packed"}},
}


@dataclass(frozen=True)
class Seen:
    """What came back from one node: a state, or the error that stands for it."""

    wanted: NodeWanted
    state: NodeState | None = None
    error: str | None = None
    # Whether the node answered at all: an answer that makes no sense is "unreadable".
    reached: bool = True
    # Every node of its cluster, itself among them.
    nodes: tuple[Peer, ...] = ()


def build(seen: Mapping[str, Seen], tool: Tool, inventory: str, generated: str) -> Report:
    """Return the report about all nodes `seen`, judged by the rules and against each other."""
    states = {name: node.state for name, node in seen.items() if node.state is not None}
    hosts = {name: _host(node, Among(name, node.nodes, states)) for name, node in seen.items()}
    models = {name: node.wanted.gpu.model for name, node in seen.items() if node.wanted.gpu}
    wanted = {name: seen[name].wanted for name in states}
    findings = {name: hosts[name].findings for name in states}
    return Report(
        tool=tool,
        inventory=inventory,
        generated=generated,
        hosts=hosts,
        differences=differences(states, models, settled(wanted, findings)),
        summary=_summary(hosts),
    )


def _host(node: Seen, among: Among) -> HostReport:
    if node.state is None:
        return HostReport(status="unreadable" if node.reached else "unreachable", error=node.error)
    findings = check(node.state, node.wanted, among)
    facts = node.state.model_dump(mode="json", exclude=_LEFT_OUT)
    return HostReport(status=_status(findings), facts=facts, findings=findings)


def _status(findings: list[Finding]) -> Status:
    if any(finding.rule.endswith(".unreadable") for finding in findings):
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
        findings={
            "error": severity["error"],
            "warning": severity["warning"],
            "info": severity["info"],
        },
    )
