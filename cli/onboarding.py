"""One run of `gpu-node onboard`: each server is admitted for itself, and all join together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from cli.asking import ask
from cli.drift import report_of
from cli.interrupt import LINE, at_once
from cli.verify import render
from drift.report.model import Report
from drift.report.visible import visible, visible_lines
from onboarding.admission import Admission, Terms, Wish
from onboarding.failures import FAILURES
from onboarding.joining import Joining, lacks
from onboarding.journal import Journal
from onboarding.running import Interrupted
from onboarding.screen import Screen
from onboarding.site import Site
from verify.outcome import Outcome
from verify.run import Wish as Job
from verify.run import verify
from verify.stopping import Interrupted as JobInterrupted

MEMBER, NO_JOB = "a member, and proved", "a member; no job proved it (--verify no)"
DRY, BEFORE = "could be a member", "a member already, and clean"


class Onboarding:
    """`results` are what each server lacks, nothing where all is well."""

    def __init__(self, site: Site, terms: Terms, screen: Screen, proof: str) -> None:
        self.site, self.terms, self.screen, self.proof = site, terms, screen, proof
        self.results: dict[str, list[str]] = {}
        self.well: dict[str, str] = {}
        self.admitted: list[Journal] = []
        self.admissions: dict[str, Admission] = {}

    def run(self, wishes: Sequence[Wish]) -> int:
        """Return the exit code; what came of each server is said."""
        try:
            self._all(wishes)
        except (Interrupted, JobInterrupted):
            self.screen.say(self._way_on())
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
        members = []
        for wish in wishes:
            self.results[wish.name] = []
            self.well[wish.name] = self._if_well
            try:
                if self._is_member(wish):
                    members.append(wish.name)
            except FAILURES as error:
                self.results[wish.name].append(str(error))
        if members:
            self._look_again(members)
        if self.admitted and not self.terms.dry:
            joining = Joining(self.site, self.admitted, self.screen)
            job = None if self.proof == "no" else self._job
            self.results.update(joining.join(self._look, job))
        if self.terms.disable_password and not self.terms.dry:
            self._disable_passwords()

    def _is_member(self, wish: Wish) -> bool:
        """Admit a server; true where it was a member before."""
        admission = Admission(self.site, wish, self.terms, self.screen)
        self.admissions[wish.name] = admission
        if admission.is_entered:
            admission.refuse_other_words()
            if self.terms.dry or not admission.is_unfinished:
                return True
        else:
            with at_once(self._way_on):
                admission.admit()
        self.admitted.append(admission.journal)
        return False

    def _look_again(self, members: Sequence[str]) -> None:
        """See whether those that were members before lack anything."""
        report = self._look(self.site)
        for name in members:
            self.well[name] = BEFORE
            if found := lacks(report, name):
                deploy = f"pyinfra {self.site.inventory} deploy/gpu_node.py"
                self.results[name] += ["in the inventory already", *found, f"repair it: {deploy}"]
            drifting = [each for each, host in report.hosts.items() if host.status == "drift"]
            if others := [each for each in drifting if each != name]:
                self.screen.say(f"{', '.join(others)} have drift: gpu-node drift tells which")

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
        self.screen.show(render(outcome))
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


def _table(results: Mapping[str, Sequence[str]], well: Mapping[str, str]) -> Table:
    """Return what came of each of several servers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("server", no_wrap=True)
    table.add_column("result", overflow="fold")
    for name, lacking in results.items():
        table.add_row(visible(name), visible_lines("\n".join(lacking)) if lacking else well[name])
    return table
