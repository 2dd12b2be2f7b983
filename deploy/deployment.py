"""One run of `gpu-node deploy`: the problems, the question, pyinfra's run or runs, the problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpu_node.deploy.console import UserConsole
from gpu_node.deploy.engine.batches import batches, size_of
from gpu_node.deploy.engine.pyinfra_process import WHOLE, Ended, run_pyinfra
from gpu_node.deploy.engine.scope import names_in
from gpu_node.deploy.engine.summary import nothing_to_repair
from gpu_node.drift.ranges import ranges
from gpu_node.drift.report import brief, table
from gpu_node.drift.report.entry import whole
from gpu_node.drift.report.model import Report, report_of
from gpu_node.drift.report.problems import problems
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.ssh.sudo import becoming_root, ssh_user
from gpu_node.inventories.interrupt import LINE, Interrupted
from gpu_node.inventories.interrupt import report as report_line
from gpu_node.inventories.next_command import deploy_command, next_command

# Keeps what a run, by its id, has done on each node.
Keep = Callable[[str, Mapping[str, str]], None]
# What changes a node that has no finding to repair.
_SWITCHES = ("reboot", "allow_disruption")


@dataclass(frozen=True)
class InventoryRun:
    """What the command line asks for; `data` are its KEY=VALUE words."""

    inventory: str
    limit: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    batch: str | None = None
    dry: bool = False


class Deployment:
    """Repairs the nodes of an inventory, which `ask` reads, and proves it; `keep` is its history.

    `values` are those that the words of the run give in place of the inventory's.
    """

    def __init__(
        self,
        run: InventoryRun,
        values: Mapping[str, object],
        console: UserConsole,
        ask: Callable[[], dict[str, Seen]],
        keep: Keep,
    ) -> None:
        self.run, self.values, self.console, self.ask = run, values, console, ask
        self.keep = keep
        # How each run of pyinfra ended, and the nodes that these may change.
        self.ended: list[Ended] = []
        self.begun: list[str] = []

    def done(self) -> int:
        """Return the exit code."""
        try:
            return self._done()
        except Interrupted:
            report_line(f"{LINE}, not proved; the next run finishes")
            self.keep("interrupted", dict.fromkeys(self.begun, "not proved"))
            return 1

    def _done(self) -> int:
        seen = self.ask()
        before = self._part(report_of(self.run.inventory, seen))
        self.console.show(table.render(before, self.console.width, next_step=False))
        fixable = {
            name: host
            for name, host in before.hosts.items()
            if any(finding.fixable for finding in host.findings)
        }
        # Whether sudo refuses shows in the run, which may have a password for it.
        to_repair = [
            name for name, host in fixable.items() if not host.without_root or seen[name].sudo
        ]
        if closed := [name for name in fixable if name not in to_repair]:
            self._explain(closed, seen)
        switched = any(self.values.get(key) is True for key in _SWITCHES)
        if not to_repair and not switched:
            if closed:
                return 1
            self.console.say(nothing_to_repair(before))
            return _unanswered(before) if self.run.dry else _code(before)
        if self.run.dry:
            return self._foreseen(before, seen, to_repair)
        self.console.confirm(_question(before, to_repair), "the repair", "nothing was changed")
        self.begun = to_repair
        code = self._repaired(seen, to_repair)
        after = self._part(report_of(self.run.inventory, self.ask()))
        self.console.show(table.render(after, self.console.width, of_run=self._again()))
        self.console.show(brief.outcome(before, after))
        self._conclude(before, brief.repaired(before, after))
        return code or _code(after)

    def _conclude(self, before: Report, repaired: Mapping[str, str]) -> None:
        """Show how each run of pyinfra can be taken back, and keep what it has done."""
        runs = dict.fromkeys(self.begun, self.ended[-1].run)
        for each in self.ended:
            runs |= dict.fromkeys(each.recorded, each.run)
            if each.recorded:
                restore = ("restore", self.run.inventory, each.recorded[0])
                command = next_command(*restore, "--run", each.run)
                where = ranges(each.recorded, before.hosts)
                self.console.show(whole(f"run {each.run} on {where}; to take it back: {command}"))
            words = {
                name: f"repaired {repaired.get(name, 'nothing')}"
                for name, run in runs.items()
                if run == each.run
            }
            self.keep(each.run, words)

    def _part(self, whole: Report) -> Report:
        """Return a report with the findings that the run is to repair or to fail by."""
        areas, nodes = (names_in(self.values.get(key)) for key in ("areas", "change"))
        return whole.part(areas, nodes)

    def _explain(self, closed: Sequence[str], seen: Mapping[str, Seen]) -> None:
        """Print why nodes are not repaired on which the SSH user is not root."""
        nodes_of: dict[str, list[str]] = {}
        for name in closed:
            nodes_of.setdefault(_user(seen[name]), []).append(name)
        for user, nodes in nodes_of.items():
            self.console.say(
                f"{ranges(nodes)}: the deploy needs root, and {user} is not root: "
                f"{becoming_root(user)}"
            )

    def _repaired(self, seen: Mapping[str, Seen], to_repair: list[str]) -> int:
        if self.run.batch is None or not to_repair:
            return self._pyinfra(self._options()).code and 1
        code = 0
        changed: list[str] = []
        parts = self._batches(seen, to_repair)
        for number, batch in enumerate(parts, 1):
            changed += batch
            self.console.say(f"== batch {number} of {len(parts)}: {ranges(batch)}")
            change = f"change={','.join(changed)}"
            ended = self._pyinfra([*self._options(), "--data", change])
            code = code or (1 if ended.code else 0)
            if ended.code and (not ended.failed or {*ended.failed} & {*changed}):
                left = [name for part in parts[number:] for name in part]
                rest = f"; not changed: {ranges(left)}" if left else ""
                self.console.say(f"Batch {number} is not proved{rest}.")
                return 1
        return code

    def _pyinfra(self, options: Sequence[str]) -> Ended:
        self.ended.append(run_pyinfra(self.run.inventory, WHOLE, options))
        return self.ended[-1]

    def _foreseen(self, before: Report, seen: Mapping[str, Seen], to_repair: list[str]) -> int:
        """Do a dry run, and show what would change, and the next command."""
        self._announce_batches(seen, to_repair)
        ended = self._pyinfra([*self._options(), "--dry"])
        self.console.print("".join(f"{line}\n" for line in ended.planned))
        self.console.show(brief.plan_of_each(before, ended.failed))
        self.console.say("Not listed: what shows only after a repair, as in a copied environment.")
        self.console.say("Nothing was changed.")
        self.console.show(whole(f"repair: {deploy_command(self.run.inventory, self._again())}"))
        return ended.code and 1

    def _announce_batches(self, seen: Mapping[str, Seen], to_repair: list[str]) -> None:
        if self.run.batch is not None and to_repair:
            for number, batch in enumerate(self._batches(seen, to_repair), 1):
                self.console.say(f"batch {number}: {ranges(batch)}")

    def _batches(self, seen: Mapping[str, Seen], names: list[str]) -> list[tuple[str, ...]]:
        models = {name: _model(seen[name]) for name in names}
        return batches(models, size_of(self.run.batch or "", len(names)))

    def _again(self) -> list[str]:
        """Return the options of the next run, which is to be like this one."""
        batch = [] if self.run.batch is None else ["--batch", self.run.batch]
        return [*self._options(), *batch]

    def _options(self) -> list[str]:
        """Return the options of pyinfra for this run."""
        return [
            *(word for limit in self.run.limit for word in ("--limit", limit)),
            *(word for data in self.run.data for word in ("--data", data)),
        ]


def _question(before: Report, to_repair: list[str]) -> str:
    hosts = {name: before.hosts[name] for name in to_repair}
    count = sum(problem.repair != "manual" for problem in problems(hosts))
    what = "this problem" if count == 1 else f"these {count} problems"
    return f"Repair {what} on {ranges(to_repair, before.hosts)}?"


def _user(node: Seen) -> str:
    return ssh_user(node.state) if node.state is not None else ""


def _model(node: Seen) -> str:
    """Return a node's GPU model, from the inventory or as found; empty where neither knows it."""
    if node.wanted.gpu is not None and node.wanted.gpu.model:
        return node.wanted.gpu.model
    if node.state is not None and node.state.driver.smi is not None:
        for gpu in node.state.driver.smi.gpus:
            return gpu.name
    return ""


def _code(report: Report) -> int:
    """Return 1 where an error is left or a node did not answer, else 0."""
    hosts = report.hosts.values()
    is_wrong = any(finding.severity == "error" for host in hosts for finding in host.findings)
    return 1 if is_wrong else _unanswered(report)


def _unanswered(report: Report) -> int:
    """Return 1 where a node did not answer, else 0."""
    return 1 if any(host.error for host in report.hosts.values()) else 0
