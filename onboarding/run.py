"""One run of `gpu-node onboard`: each server is admitted for itself, and all join together."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.report import table
from gpu_node.drift.report.model import Report, report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from gpu_node.inventories.errors import about, as_printed, failed
from gpu_node.inventories.escape import visible, visible_lines
from gpu_node.inventories.interrupt import LINE, Interrupted, at_once, report
from gpu_node.inventories.next_command import deploy_command
from gpu_node.inventories.servers_csv import read_csv
from gpu_node.onboarding.admission import Admission, Options, Request
from gpu_node.onboarding.errors import FAILURES
from gpu_node.onboarding.inventory_files import Site
from gpu_node.onboarding.joining import Joining, is_only_node, lacks, next_steps
from gpu_node.verify.outcome import Outcome
from gpu_node.verify.request import Request as Job
from gpu_node.verify.run import verify
from gpu_node.verify.table import render

MEMBER, NO_JOB = "a member, and proved", "a member; no job proved it (--verify no)"
ALONE = "a member; no job proved it (it is the only node)"
DRY, BEFORE = "could be a member", "a member already, and clean"


class Onboarding:
    """`results` are what each server lacks, nothing where all is well; `ask` reads the nodes."""

    def __init__(
        self,
        site: Site,
        options: Options,
        console: UserConsole,
        proof: str,
        ask: Callable[[str], dict[str, Seen]],
    ) -> None:
        self.site, self.options, self.console, self.proof = site, options, console, proof
        self.ask = ask
        self.results: dict[str, list[str]] = {}
        self.well: dict[str, str] = {}
        self.admitted: list[str] = []
        self.admissions: dict[str, Admission] = {}
        # The problems of the last job.
        self.problems: tuple[str, ...] = ()

    def run(self, requests: Sequence[Request]) -> int:
        """Onboard the servers, print the result of each, and return the exit code.

        Raises FileError where the cluster file is wrong before any server is contacted.
        """
        self.site.cluster()
        try:
            self._all(requests)
        except Interrupted:
            report(self._resume_line())
            return 1
        if requests[1:]:
            self.console.show(_table(self.results, self.well))
        else:
            self._say(requests[0].name)
        return 1 if any(self.results.values()) else 0

    @property
    def _if_well(self) -> str:
        if self.options.dry:
            return DRY
        return NO_JOB if self.proof == "no" else MEMBER

    def _all(self, requests: Sequence[Request]) -> None:
        members, report = [], None
        for request in requests:
            self.results[request.name] = []
            self.well[request.name] = self._if_well
            try:
                if self._is_member(request):
                    members.append(request.name)
            except FAILURES as error:
                problem = failed(error, request.name)
                self.results[request.name].append(str(error))
                if requests[1:]:  # the summary is far away
                    self.console.say(as_printed(problem))
        if self.admitted and not self.options.dry:
            report = self._join()
        # Members have drift until they know a new server.
        if members:
            self._judge(members, report or self._look_again(members))
        if self.options.disable_password and not self.options.dry:
            self._disable_passwords()

    def _is_member(self, request: Request) -> bool:
        """Admit a server; true where it was a member before."""
        admission = Admission(self.site, request, self.options, self.console)
        self.admissions[request.name] = admission
        if admission.is_entered:
            admission.refuse_other_options()
            with at_once(self._resume_line):
                joins = admission.let_in_again(self.proof != "no")
        else:
            with at_once(self._resume_line):
                admission.admit()
            joins = True
        if joins:
            self.admitted.append(request.name)
        return not joins

    def _join(self) -> Report | None:
        """Have those that were admitted join the others; return what was read of all then."""
        joining = Joining(self.site, self.admitted, self.console)
        self.results.update(joining.join(self._look, None if self.proof == "no" else self._job))
        if self.proof != "no" and is_only_node(self.site):
            self.well.update((name, ALONE) for name in self.admitted)
        return joining.report

    def _look_again(self, members: Sequence[str]) -> Report:
        """Read all nodes, and show it where one that was a member before lacks anything."""
        self.console.stage("report", f"comparison of {', '.join(members)} with the others")
        report = self._look(self.site)
        drifting = [name for name, host in report.hosts.items() if host.status == "drift"]
        if any(lacks(report, name, self.admitted) for name in members):
            self.console.show(table.render(View(report), self.console.width))
        elif drifting:
            have = "has" if len(drifting) == 1 else "have"
            self.console.say(f"{', '.join(drifting)} {have} drift: gpu-node drift lists it")
        return report

    def _judge(self, members: Sequence[str], report: Report) -> None:
        """Say what those that were members before lack by a report that was shown."""
        for name in members:
            self.well[name] = BEFORE
            if found := lacks(report, name, self.admitted):
                steps = next_steps(report, name, deploy_command(str(self.site.inventory)))
                problem = f"found a member already: {', '.join(found)}"
                then = ", then " if "; next: " in problem else "; next: "
                self.results[name].append(problem + "".join(then + step for step in steps[:1]))

    def _disable_passwords(self) -> None:
        """Turn password logins off where a server lacks nothing; the others may need them yet."""
        for name, admission in self.admissions.items():
            if not self.results[name]:
                try:
                    with at_once(self._resume_line):
                        # The cluster file has its entry now.
                        admission.cluster = self.site.cluster()
                        admission.disable_passwords()
                except FAILURES as error:
                    self.results[name].append(f"passwords: {error}")

    def _look(self, site: Site) -> Report:
        inventory = str(site.inventory)
        with at_once(self._resume_line):
            return report_of(inventory, self.ask(inventory))

    def _job(self, site: Site, names: Sequence[str]) -> Outcome:
        backend = "" if self.proof == "auto" else self.proof
        outcome = verify(str(site.inventory), names, Job(backend=backend))
        if outcome.problems and outcome.problems == self.problems:
            self.console.say(f"  {' and '.join(names)}: the same")
        else:
            self.console.show(render(outcome))
        self.problems = outcome.problems
        return outcome

    def _resume_line(self) -> str:
        """Return the line for Ctrl-C: the stage, and how to resume."""
        return f"{LINE} {self.console.at}; run the same command to continue".replace("  ", " ")

    def _say(self, name: str) -> None:
        """Say what came of the one server."""
        if lacking := self.results[name]:
            lines = [about(name, line) for each in lacking for line in each.split("\n")]
            self.console.say(as_printed("\n".join(lines)))
        else:
            self.console.show(f"{name}: {self.well[name]}")


def listed(file: str, common: Request) -> list[Request]:
    """Return the servers that a CSV file lists, with what the command line says of all of them."""
    return [
        Request(each.name, each.address, common.user, common.port, each.group, each.fingerprint)
        for each in read_csv(Path(file))
    ]


def _table(results: Mapping[str, Sequence[str]], well: Mapping[str, str]) -> Table:
    """Return what came of each of several servers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("server", no_wrap=True)
    table.add_column("result", overflow="fold")
    for name, lacking in results.items():
        result = "\n".join(lacking) if lacking else well[name]
        table.add_row(Text(visible(name)), Text(visible_lines(result)))
    return table
