"""One run of `gpu-node onboard`: each server is admitted for itself, and all join together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from cli.asking import ask
from cli.interrupt import LINE, at_once, say
from cli.reporting import report_of
from cli.verifying import render
from drift.report import table
from drift.report.model import Report
from drift.report.table import DEPLOY
from drift.report.visible import visible, visible_lines
from inventories.newcomers import read_csv
from onboarding.admission import Admission, Terms, Wish
from onboarding.again import let_in_again
from onboarding.failures import FAILURES
from onboarding.joining import Joining, is_only_node, lacks, next_steps
from onboarding.journal import Journal
from onboarding.running import Interrupted
from onboarding.screen import Screen
from onboarding.site import Site
from verify.outcome import Outcome
from verify.run import verify
from verify.stopping import Interrupted as JobInterrupted
from verify.wish import Wish as Job

MEMBER, NO_JOB = "a member, and proved", "a member; no job proved it (--verify no)"
ALONE = "a member; no job proved it (it is the only node)"
DRY, BEFORE = "could be a member", "a member already, and clean"


class Onboarding:
    """`results` are what each server lacks, nothing where all is well."""

    def __init__(self, site: Site, terms: Terms, screen: Screen, proof: str) -> None:
        self.site, self.terms, self.screen, self.proof = site, terms, screen, proof
        self.results: dict[str, list[str]] = {}
        self.well: dict[str, str] = {}
        self.admitted: list[Journal] = []
        self.admissions: dict[str, Admission] = {}
        # What kept the last job from its end.
        self.told: tuple[str, ...] = ()

    def run(self, wishes: Sequence[Wish]) -> int:
        """Return the exit code; what came of each server is said."""
        try:
            self._all(wishes)
        except (Interrupted, JobInterrupted):
            say(self._way_on())
            return 1
        if wishes[1:]:
            self.screen.show(_table(self.results, self.well))
        else:
            self._say(wishes[0].name)
        return 1 if any(self.results.values()) else 0

    @property
    def _if_well(self) -> str:
        if self.terms.dry:
            return DRY
        return NO_JOB if self.proof == "no" else MEMBER

    def _all(self, wishes: Sequence[Wish]) -> None:
        members, report = [], None
        for wish in wishes:
            self.results[wish.name] = []
            self.well[wish.name] = self._if_well
            try:
                if self._is_member(wish):
                    members.append(wish.name)
            except FAILURES as error:
                why = str(error).removeprefix(f"{wish.name}: ")
                self.results[wish.name].append(why)
                if wishes[1:]:  # the summary is far away
                    self.screen.say(visible_lines(f"{wish.name}: {why}"))
        if self.admitted and not self.terms.dry:
            report = self._join()
        # Not before: until the others know a newcomer, they are not clean.
        if members:
            self._judge(members, report or self._look_again(members))
        if self.terms.disable_password and not self.terms.dry:
            self._disable_passwords()

    def _is_member(self, wish: Wish) -> bool:
        """Admit a server; true where it was a member before."""
        admission = Admission(self.site, wish, self.terms, self.screen)
        self.admissions[wish.name] = admission
        if admission.is_entered:
            admission.refuse_other_words()
            with at_once(self._way_on):
                joins = let_in_again(admission, self.proof != "no")
        else:
            with at_once(self._way_on):
                admission.admit()
            joins = True
        if joins:
            self.admitted.append(admission.journal)
        return not joins

    def _join(self) -> Report | None:
        """Have those that were admitted join the others; return what was read of all then."""
        joining = Joining(self.site, self.admitted, self.screen)
        self.results.update(joining.join(self._look, None if self.proof == "no" else self._job))
        if self.proof != "no" and is_only_node(self.site):
            self.well.update((each.name, ALONE) for each in self.admitted)
        return joining.report

    def _look_again(self, members: Sequence[str]) -> Report:
        """Read all nodes, and show it where one that was a member before lacks anything."""
        self.screen.stage("report", f"{', '.join(members)} beside the others")
        report = self._look(self.site)
        drifting = [name for name, host in report.hosts.items() if host.status == "drift"]
        if any(lacks(report, name, self._newcomers) for name in members):
            self.screen.show(table.render(report, self.screen.width))
        elif drifting:
            have = "has" if len(drifting) == 1 else "have"
            self.screen.say(f"{', '.join(drifting)} {have} drift: gpu-node drift tells which")
        return report

    def _judge(self, members: Sequence[str], report: Report) -> None:
        """Say what those that were members before lack by a report that was shown."""
        for name in members:
            self.well[name] = BEFORE
            if found := lacks(report, name, self._newcomers):
                found += next_steps(report, name, f"pyinfra {self.site.inventory} {DEPLOY}")
                self.results[name] += ["in the inventory already", *found]

    @property
    def _newcomers(self) -> list[str]:
        return [each.name for each in self.admitted]

    def _disable_passwords(self) -> None:
        """Turn password logins off where a server lacks nothing; the others may need them yet."""
        for name, admission in self.admissions.items():
            if not self.results[name]:
                try:
                    with at_once(self._way_on):
                        # The file has its entry by now.
                        admission.cluster = self.site.cluster()
                        admission.disable_passwords()
                except FAILURES as error:
                    self.results[name].append(f"passwords: {error}")

    def _look(self, site: Site) -> Report:
        inventory = str(site.inventory)
        with at_once(self._way_on):
            return report_of(inventory, ask(inventory))

    def _job(self, site: Site, names: Sequence[str]) -> Outcome:
        backend = "" if self.proof == "auto" else self.proof
        outcome = verify(str(site.inventory), names, Job(backend=backend))
        if outcome.problems and outcome.problems == self.told:
            self.screen.say(f"  {' and '.join(names)}: the same")
        else:
            self.screen.show(render(outcome))
        self.told = outcome.problems
        return outcome

    def _way_on(self) -> str:
        """Say where it was stopped, and how it goes on."""
        return f"{LINE} {self.screen.at}; the same command goes on from there".replace("  ", " ")

    def _say(self, name: str) -> None:
        """Say what came of the one server."""
        if lacking := self.results[name]:
            self.screen.say(f"Error: {name}: " + visible_lines("\n  ".join(lacking)))
        else:
            self.screen.show(visible(f"{name}: {self.well[name]}"))


def listed(file: str, said: Wish) -> list[Wish]:
    """Return the servers that a CSV file lists, with what the command line says of all of them."""
    return [
        Wish(each.name, each.address, said.user, said.port, each.group, each.fingerprint)
        for each in read_csv(Path(file))
    ]


def _table(results: Mapping[str, Sequence[str]], well: Mapping[str, str]) -> Table:
    """Return what came of each of several servers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("server", no_wrap=True)
    table.add_column("result", overflow="fold")
    for name, lacking in results.items():
        table.add_row(visible(name), visible_lines("\n".join(lacking)) if lacking else well[name])
    return table
