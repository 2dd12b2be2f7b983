"""Joining: the mesh with the others, the whole deploy of the newcomers, a report and a proof."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from gpu_node.deploy.console import UserConsole
from gpu_node.deploy.engine.pyinfra_process import ENVIRONMENTS, WHOLE
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.subject import Logins
from gpu_node.drift.report import table
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.view import View
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.onboarding import journal
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.inventory_files import Site
from gpu_node.onboarding.run_pyinfra import pyinfra
from gpu_node.verify.outcome import Outcome

STAGES = ("mesh", "environments", "deploy", "report", "verify")
_WORDS = {
    "mesh": "logins between it and every node",
    "environments": "copies of the Python environments that it lacks",
    "deploy": "the deploy of this node",
    "report": "comparison with the others",
    "verify": "an all-reduce with another node",
}
# With how many nodes a job is tried before it is given up.
TRIES = 3
UNPROVED = "it is a member; only the proof is missing; next: run this again, or --verify no"
# Of a server none of whose reasons says what to do.
_THEN = "; next: do what the output above names, then run this again"
# Reads all nodes of a site; and verifies that some of them work together.
Look = Callable[[Site], Report]
Verify = Callable[[Site, Sequence[str]], Outcome]


class Joining:
    """Servers that the inventory has, on their way to be members."""

    def __init__(self, site: Site, names: Sequence[str], console: UserConsole) -> None:
        self.site, self.console = site, console
        self.names = list(names)
        self.failed: dict[str, list[str]] = {name: [] for name in self.names}
        # What went wrong in stages of all, which may be another node's, and in which of them.
        self.errors: dict[str, list[str]] = {}
        # The nodes for jobs that gave the report an answer.
        self.answering: list[str] = []
        # What was read when all had been deployed.
        self.report: Report | None = None

    def join(self, look: Look, verify: Verify | None) -> dict[str, list[str]]:
        """Return what each server lacks to be a member; those that lack nothing are proved.

        After a stage that fails the next one runs all the same: the report shows what is missing.
        Every stage is idempotent, so a server that was stopped half-way runs all of them again.
        """
        if SUDO.is_given:  # each stage would try a wrong one anew: here it ends all
            look(self.site)
        self._deployed("mesh", WHOLE, areas="ssh")
        if _copies_environments(self.site, self.names):
            self._deployed("environments", ENVIRONMENTS, change=",".join(self.names))
        self._deployed("deploy", WHOLE, change=",".join(self.names))
        self._reported(look)
        if verify is not None:
            self._verified(verify)
        for name, reasons in self.failed.items():
            if not reasons:
                journal.forget(self.site, name)
            elif not any("; next: " in each for each in reasons):
                reasons[-1] += _THEN
        return self.failed

    def _deployed(self, stage: str, deploy: Path, **data: str) -> None:
        """Run a deploy, and note its failure."""
        self._head(stage)
        try:
            pyinfra(self.site, deploy, **data)
        except Stopped as error:
            self.errors.setdefault(str(error), []).append(stage)

    def _reported(self, look: Look) -> None:
        """Show the newcomers beside the others; drift of one of them is what it lacks."""
        self._head("report")
        self.report = report = look(self.site)
        self.answering = [
            name
            for name, host in report.hosts.items()
            if host.status in ("ok", "drift") and host.runs_jobs
        ]
        self.console.show(table.render(View(report), self.console.width))
        errors = [f"{', '.join(stages)}: {error}" for error, stages in self.errors.items()]
        for name, reasons in self.failed.items():
            if found := lacks(report, name, self.names):
                # A node that is unreachable explains the failures.
                why = [] if found == _awaiting(report, name) else errors
                reasons += [*why, *(f"report: {each}" for each in found)]

    def _verified(self, verify: Verify) -> None:
        """Prove each newcomer by a job that it runs together with another node, if there is one."""
        if all(self.failed.values()) or is_only_node(self.site):
            return
        self._head("verify")
        for name, reasons in self.failed.items():
            if reasons:
                self.console.say(f"  {name}: not run, because it is not repaired yet")
            elif name not in self.answering:
                self.console.say(f"  {name}: not run, because it has gpu: none")
            elif why := self._unproved(verify, name):
                reasons += [why, UNPROVED]

    def _unproved(self, verify: Verify, name: str) -> str:
        """Have a server run a job with another node; return why it is not proved by that.

        A node that cannot take part, as one whose GPUs are in use, leaves it to the next. What is
        the same with two of them is not theirs.
        """
        tried: list[str] = []
        problems: tuple[str, ...] = ()
        for other in self._others(name)[:TRIES]:
            outcome = verify(self.site, [other, name])
            if outcome.ok:
                return ""
            is_same = outcome.problems == problems
            tried, problems = [*(tried if is_same else []), other], outcome.problems
            if outcome.how or is_same:  # a job was started: it is the answer
                break
        if not tried:
            return "verify: no other node answers"
        return f"verify with {', '.join(tried)}: {'; '.join(problems)}"

    def _others(self, name: str) -> list[str]:
        """Return the nodes to run a job with: members before other newcomers."""
        others = [each for each in self.answering if each != name]
        members = [other for other in others if other not in self.names]
        return [*members, *(other for other in others if other in self.names)]

    def _head(self, stage: str) -> None:
        self.console.stage(stage, _WORDS[stage])


def stages_of(site: Site, name: str, verifies: bool) -> list[str]:
    """Return the stages in which a server of the inventory becomes a member."""
    skipped = [] if _copies_environments(site, [name]) else ["environments"]
    skipped += [] if verifies else ["verify"]
    return [stage for stage in STAGES if stage not in skipped]


def is_only_node(site: Site) -> bool:
    """Whether there is one node, which no job with another can prove."""
    return len(site.cluster().hosts) == 1


def _copies_environments(site: Site, names: Collection[str]) -> bool:
    cluster = site.cluster()
    return any(cluster.data_of(name).get("nccl_copy_from") for name in names)


def lacks(report: Report, name: str, newcomers: Collection[str] = ()) -> list[str]:
    """Return what keeps a node from being a member like the others, by a report of all.

    Other newcomers are not compared with, unless there are no members. A warning that all members
    have, and no deploy repairs, makes it no worse than they are.
    """
    host, awaited = report.hosts[name], _unreachable(report, name)
    what = "has drift" if host.status == "drift" else f"is {host.status}"
    is_right = host.status == "ok" or _is_only_about(host, awaited, _usual(report, name, newcomers))
    missing = [] if is_right else [host.error or f"it {what}, see above"]
    missing += [
        f"{difference.fact} differs from the others': {difference.values.get(name)}"
        for difference in report.differences
        if difference.drift and _is_alone(difference.values, name, newcomers)
    ]
    for other, theirs in report.hosts.items():
        if other != name and theirs.status == "unreadable":
            missing.append(f"not compared with {other}, which is {theirs.status}")
        missing += [
            f"{other}: {finding.rule}: {finding.found}"
            for finding in theirs.findings
            if other != name and finding.area == "ssh" and name in peers_of(finding)
        ]
    if not missing:
        return _awaiting(report, name)
    return [*missing, *(f"not compared with {other}, which is unreachable" for other in awaited)]


def _unreachable(report: Report, name: str) -> list[str]:
    """Return the other nodes that are not there."""
    hosts = report.hosts.items()
    return [each for each, host in hosts if each != name and host.status == "unreachable"]


def _usual(report: Report, name: str, newcomers: Collection[str]) -> set[tuple[str, str]]:
    """Return the warnings without a repair that all members which answer have."""
    apart = {name, *newcomers}
    found = [
        {
            (each.rule, each.subject)
            for each in host.findings
            if each.severity == "warning" and not each.fixable
        }
        for other, host in report.hosts.items()
        if other not in apart and not host.error
    ]
    return set.intersection(*found) if found else set()


def _is_only_about(
    host: HostReport, nodes: Collection[str], usual: Collection[tuple[str, str]]
) -> bool:
    """Whether all that is wrong on a node is usual, or its logins to certain nodes."""
    wrong = [finding for finding in host.findings if finding.severity != "info"]
    is_theirs = all(
        (peers_of(each) and peers_of(each) <= {*nodes})
        or (each.severity == "warning" and (each.rule, each.subject) in usual)
        for each in wrong
    )
    return host.status == "drift" and bool(wrong) and is_theirs


def peers_of(finding: Finding) -> frozenset[str]:
    """Return the nodes whose logins a finding is about; empty for a finding about others."""
    return finding.about.names if isinstance(finding.about, Logins) else frozenset()


def _awaiting(report: Report, name: str) -> list[str]:
    """Say for which nodes one has to wait that lacks nothing else; nothing where all are there."""
    nodes = _unreachable(report, name)
    if not nodes:
        return []
    is_one = len(nodes) == 1
    are, them, they = ("is", "it", "it answers") if is_one else ("are", "them", "they answer")
    return [
        f"{' and '.join(nodes)} {are} unreachable, and only the checks between {them} "
        f"and {name} are missing; next: run this again when {they}"
    ]


def next_steps(report: Report, name: str, deploy: str) -> list[str]:
    """Return what to do about a member that lacks something: a deploy repairs what was read."""
    status = report.hosts[name].status
    if status == "unreachable":
        return ["run this again when it answers"]
    if status == "unreadable":
        return ["run this again when all of it can be read"]
    of_it = [
        finding
        for other, host in report.hosts.items()
        for finding in host.findings
        if other == name or name in peers_of(finding)
    ]
    return [f"repair it: {deploy}"] if any(each.fixable for each in of_it) else []


def _is_alone(values: Mapping[str, str], name: str, newcomers: Collection[str]) -> bool:
    """Whether a node has a value that none of the members has."""
    if name not in values:
        return False
    others = {other: value for other, value in values.items() if other != name}
    members = [value for other, value in others.items() if other not in newcomers]
    return values[name] not in (members or others.values())
