"""Joining: the mesh with the others, the whole deploy of the newcomers, a report and a proof."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from drift.report import table
from drift.report.model import Report
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
# Reads all nodes of a site; and verifies that some of them work together.
Look = Callable[[Site], Report]
Verify = Callable[[Site, Sequence[str]], Outcome]


class Joining:
    """Servers that the inventory has, on their way to be members."""

    def __init__(self, site: Site, journals: Sequence[Journal], screen: Screen) -> None:
        self.site, self.screen = site, screen
        self.journals = {each.name: each for each in journals}
        self.failed: dict[str, list[str]] = {name: [] for name in self.journals}
        # What went wrong in stages of all, which may be another node's.
        self.errors: list[str] = []
        # The nodes that gave the report an answer.
        self.answering: list[str] = []

    def join(self, look: Look, verify: Verify | None) -> dict[str, list[str]]:
        """Return what each server lacks to be a member; those that lack nothing are proved.

        A stage that fails does not keep the next from what it can do: whether a server has what it
        was to bring, the report tells.
        """
        self._deployed("mesh", WHOLE, areas="ssh")
        if self._copies_environments():
            self._deployed("environments", ENVIRONMENTS, change=self._names)
        self._deployed("deploy", WHOLE, change=self._names)
        self._reported(look)
        self._verified(verify)
        for name, reasons in self.failed.items():
            if reasons:
                journal.write(self.site, self.journals[name].anew())
            else:
                journal.forget(self.site, name)
        return self.failed

    @property
    def _names(self) -> str:
        return ",".join(self.journals)

    def _copies_environments(self) -> bool:
        cluster = self.site.cluster()
        return any(cluster.data_of(name).get("nccl_copy_from") for name in self.journals)

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
            self.errors.append(f"{stage}: {error}")
            return
        for name, each in self.journals.items():
            self.journals[name] = each.with_stage(stage, file)
            journal.write(self.site, self.journals[name])

    def _reported(self, look: Look) -> None:
        """Show the newcomers beside the others; drift of one of them is what it lacks."""
        self._head("report")
        report = look(self.site)
        self.answering = [
            name for name, host in report.hosts.items() if host.status in ("ok", "drift")
        ]
        self.screen.show(table.render(report, self.screen.width))
        for name, reasons in self.failed.items():
            if found := lacks(report, name, self.journals):
                reasons += [*self.errors, *(f"report: {each}" for each in found)]

    def _verified(self, verify: Verify | None) -> None:
        """Prove each newcomer by a job that it runs together with another node."""
        self._head("verify")
        if verify is None:
            self.screen.say("  not asked for: no job was run")
            return
        for name, reasons in self.failed.items():
            if reasons:
                self.screen.say(f"  {name}: not run, as it is not right yet")
            elif set(self.site.cluster().hosts) == {name}:
                self.screen.say(f"  {name}: not run, it is the only node")
            else:
                reasons += self._unproved(verify, name)

    def _unproved(self, verify: Verify, name: str) -> list[str]:
        """Have a server run a job with another node; return why it is not proved by that.

        A node that cannot take part, as one whose GPUs are in use, leaves it to the next.
        """
        why = ["verify: no other node answers"]
        for other in self._others(name)[:TRIES]:
            outcome = verify(self.site, [other, name])
            if outcome.ok:
                return []
            why = [f"verify with {other}: {'; '.join(outcome.problems)}"]
            if outcome.how:  # a job was started: it is the answer
                break
        return why

    def _others(self, name: str) -> list[str]:
        """Return the nodes to run a job with: members before other newcomers."""
        others = [each for each in self.answering if each != name]
        members = [each for each in others if each not in self.journals]
        return [*members, *(each for each in others if each in self.journals)]

    def _head(self, stage: str) -> None:
        self.screen.stage(stage, _WORDS[stage])


def lacks(report: Report, name: str, newcomers: Collection[str] = ()) -> list[str]:
    """Return what keeps a node from being a member like the others, by a report of all.

    Other newcomers are no measure, unless there is nobody else.
    """
    host = report.hosts[name]
    told = [] if host.status == "ok" else [host.error or f"{name} has {host.status}, see above"]
    told += [
        f"{each.fact} differs from the others': {each.values.get(name)}"
        for each in report.differences
        if each.drift and _is_alone(each.values, name, newcomers)
    ]
    for other, theirs in report.hosts.items():
        if other != name and theirs.status in ("unreachable", "unreadable"):
            told.append(f"not compared with {other}, which is {theirs.status}")
        told += [
            f"{other}: {each.rule}: {each.subject}: {each.found}"
            for each in theirs.findings
            if other != name and each.step == "ssh" and each.subject == name
        ]
    return told


def _is_alone(values: Mapping[str, str], name: str, newcomers: Collection[str]) -> bool:
    """Whether a node has a value that none of the members has."""
    if name not in values:
        return False
    others = {other: value for other, value in values.items() if other != name}
    members = [value for other, value in others.items() if other not in newcomers]
    return values[name] not in (members or others.values())
