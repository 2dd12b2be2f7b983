"""Joining: the mesh with the others, the whole deploy of the newcomers, a report and a proof."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from drift.report import table
from drift.report.model import HostReport, Report
from onboarding import journal
from onboarding.journal import Journal
from onboarding.running import ENVIRONMENTS, WHOLE, pyinfra
from onboarding.screen import Screen
from onboarding.site import Site
from onboarding.stopped import Stopped
from verify.outcome import Outcome

STAGES = ("mesh", "environments", "deploy", "report", "verify")
_WORDS = {
    "mesh": "every node knows it and lets it in, and it them",
    "environments": "the Python environments that it lacks",
    "deploy": "the whole deploy, of it alone",
    "report": "it beside the others",
    "verify": "an all-reduce with another node",
}
# With how many nodes a job is tried before it is given up.
TRIES = 3
UNPROVED = "it is a member; only the proof is missing: run this again, or --verify no"
# Reads all nodes of a site; and verifies that some of them work together.
Look = Callable[[Site], Report]
Verify = Callable[[Site, Sequence[str]], Outcome]


class Joining:
    """Servers that the inventory has, on their way to be members."""

    def __init__(self, site: Site, journals: Sequence[Journal], screen: Screen) -> None:
        self.site, self.screen = site, screen
        self.journals = {each.name: each for each in journals}
        self.failed: dict[str, list[str]] = {name: [] for name in self.journals}
        # What went wrong in stages of all, which may be another node's, and in which of them.
        self.errors: dict[str, list[str]] = {}
        # The nodes that gave the report an answer.
        self.answering: list[str] = []
        # What was read when all had been deployed.
        self.report: Report | None = None

    def join(self, look: Look, verify: Verify | None) -> dict[str, list[str]]:
        """Return what each server lacks to be a member; those that lack nothing are proved.

        A stage that fails does not keep the next from what it can do: whether a server has what it
        was to bring, the report tells.
        """
        self._deployed("mesh", WHOLE, areas="ssh")
        if _copies_environments(self.site, self.journals):
            self._deployed("environments", ENVIRONMENTS, change=self._names)
        self._deployed("deploy", WHOLE, change=self._names)
        self._reported(look)
        for name, reasons in self.failed.items():
            if reasons:  # a stage that was done was not enough
                journal.write(self.site, self.journals[name].anew())
        if verify is not None:
            self._verified(verify)
        for name, reasons in self.failed.items():
            if not reasons:
                journal.forget(self.site, name)
        return self.failed

    @property
    def _names(self) -> str:
        return ",".join(self.journals)

    def _deployed(self, stage: str, deploy: Path, **data: str) -> None:
        """Run a deploy where a newcomer has not had it; what fails is noted."""
        self._head(stage)
        file = self.site.digest()
        if all(each.has_done(stage, file) for each in self.journals.values()):
            self.screen.say("  done before")
            return
        try:
            pyinfra(self.site, deploy, **data)
        except Stopped as error:
            self.errors.setdefault(str(error), []).append(stage)
            return
        for name, each in self.journals.items():
            self.journals[name] = each.with_stage(stage, file)
            journal.write(self.site, self.journals[name])

    def _reported(self, look: Look) -> None:
        """Show the newcomers beside the others; drift of one of them is what it lacks."""
        self._head("report")
        self.report = report = look(self.site)
        self.answering = [
            name for name, host in report.hosts.items() if host.status in ("ok", "drift")
        ]
        self.screen.show(table.render(report, self.screen.width))
        errors = [f"{', '.join(stages)}: {error}" for error, stages in self.errors.items()]
        for name, reasons in self.failed.items():
            if found := lacks(report, name, self.journals):
                # What failed for a node that is not there is told by that.
                why = [] if found == _awaiting(report, name) else errors
                reasons += [*why, *(f"report: {each}" for each in found)]

    def _verified(self, verify: Verify) -> None:
        """Prove each newcomer by a job that it runs together with another node, if there is one."""
        if all(self.failed.values()) or is_only_node(self.site):
            return
        self._head("verify")
        for name, reasons in self.failed.items():
            if reasons:
                self.screen.say(f"  {name}: not run, as it is not right yet")
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
        members = [each for each in others if each not in self.journals]
        return [*members, *(each for each in others if each in self.journals)]

    def _head(self, stage: str) -> None:
        self.screen.stage(stage, _WORDS[stage])


def left(site: Site, begun: Journal, verifies: bool) -> list[str]:
    """Return the stages that a server which was begun has before it."""
    skipped = [] if _copies_environments(site, [begun.name]) else ["environments"]
    skipped += [] if verifies else ["verify"]
    file = site.digest()
    return [each for each in STAGES if each not in skipped and not begun.has_done(each, file)]


def is_only_node(site: Site) -> bool:
    """Whether there is one node, which no job with another can prove."""
    return len(site.cluster().hosts) == 1


def _copies_environments(site: Site, names: Collection[str]) -> bool:
    cluster = site.cluster()
    return any(cluster.data_of(name).get("nccl_copy_from") for name in names)


def lacks(report: Report, name: str, newcomers: Collection[str] = ()) -> list[str]:
    """Return what keeps a node from being a member like the others, by a report of all.

    Other newcomers are no measure, unless there is nobody else.
    """
    host, awaited = report.hosts[name], _unreachable(report, name)
    what = "has drift" if host.status == "drift" else f"is {host.status}"
    is_right = host.status == "ok" or _is_only_about(host, awaited)
    told = [] if is_right else [host.error or f"it {what}, see above"]
    told += [
        f"{each.fact} differs from the others': {each.values.get(name)}"
        for each in report.differences
        if each.drift and _is_alone(each.values, name, newcomers)
    ]
    for other, theirs in report.hosts.items():
        if other != name and theirs.status == "unreadable":
            told.append(f"not compared with {other}, which is {theirs.status}")
        told += [
            f"{other}: {each.rule}: {each.subject}: {each.found}"
            for each in theirs.findings
            if other != name and each.step == "ssh" and each.subject == name
        ]
    if not told:
        return _awaiting(report, name)
    return [*told, *(f"not compared with {other}, which is unreachable" for other in awaited)]


def _unreachable(report: Report, name: str) -> list[str]:
    """Return the other nodes that are not there."""
    hosts = report.hosts.items()
    return [each for each, host in hosts if each != name and host.status == "unreachable"]


def _is_only_about(host: HostReport, nodes: Collection[str]) -> bool:
    """Whether all that is wrong on a node is its logins to certain nodes."""
    wrong = [each for each in host.findings if each.severity != "info"]
    is_theirs = all(each.step == "ssh" and each.subject in nodes for each in wrong)
    return host.status == "drift" and bool(wrong) and is_theirs


def _awaiting(report: Report, name: str) -> list[str]:
    """Say for which nodes one has to wait that lacks nothing else; nothing where all are there."""
    nodes = _unreachable(report, name)
    if not nodes:
        return []
    is_one = len(nodes) == 1
    are, them, they = ("is", "it", "it answers") if is_one else ("are", "them", "they answer")
    return [
        f"{' and '.join(nodes)} {are} unreachable, and only what is between {them} and {name} is "
        f"missing: run this again when {they}"
    ]


def next_steps(report: Report, name: str, deploy: str) -> list[str]:
    """Return what to do about a member that lacks something: a deploy repairs what was read."""
    status = report.hosts[name].status
    if status == "unreachable":
        return ["run this again when it answers"]
    if status == "unreadable":
        return ["run this again when all of it can be read"]
    of_it = [
        each
        for other, host in report.hosts.items()
        for each in host.findings
        if other == name or each.subject == name
    ]
    return [f"repair it: {deploy}"] if any(each.fixable for each in of_it) else []


def _is_alone(values: Mapping[str, str], name: str, newcomers: Collection[str]) -> bool:
    """Whether a node has a value that none of the members has."""
    if name not in values:
        return False
    others = {other: value for other, value in values.items() if other != name}
    members = [value for other, value in others.items() if other not in newcomers]
    return values[name] not in (members or others.values())
