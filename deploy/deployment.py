"""One run of `gpu-node deploy`: the problems, the question, pyinfra's run or runs, the problems."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpu_node.deploy.console import UserConsole
from gpu_node.deploy.engine.baseline import handed, taken
from gpu_node.deploy.engine.pyinfra_process import WHOLE, Ended, run_pyinfra
from gpu_node.deploy.engine.scope import names_in
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.drift.report import brief, table
from gpu_node.drift.report.entry import whole
from gpu_node.drift.report.model import Report, report_of
from gpu_node.drift.report.problems import problems
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from gpu_node.drift.ssh.sudo import no_root
from gpu_node.inventories.interrupt import LINE, Interrupted
from gpu_node.inventories.interrupt import report as report_line
from gpu_node.inventories.next_command import ASKING, deploy_command, next_command

# Keeps what a run, by its id, has done on each node.
Keep = Callable[[str, Mapping[str, str]], None]
# What changes a node that has no finding to repair.
_SWITCHES = ("reboot", "allow_disruption")

_COUNT = re.compile(r"[1-9][0-9]{0,5}")
_SHARE = re.compile(r"([1-9][0-9]?|100)%")
ALLOWED = "a number of nodes, such as 2, or a share of them, such as 25%"


@dataclass
class Deployment:
    """Repairs the nodes of an inventory, which `ask` reads, and proves it; `keep` is its history.

    `values` are those of its KEY=VALUE words, `data`, in place of the inventory's.
    """

    inventory: str
    limit: tuple[str, ...]
    data: tuple[str, ...]
    batch: str | None
    dry: bool
    values: Mapping[str, object]
    console: UserConsole
    ask: Callable[[Sequence[str]], dict[str, Seen]]
    keep: Keep
    # What the nodes had before it.
    seen: dict[str, Seen] = field(default_factory=dict)
    # How each run of pyinfra ended, and the nodes that these may change.
    ended: list[Ended] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)

    def done(self) -> int:
        """Return the exit code."""
        try:
            return self._done()
        except Interrupted as error:
            report_line(f"{LINE}, not proved; the next run finishes")
            words = "interrupted, not proved" if error.run else "not proved"
            self.keep(error.run or "interrupted", dict.fromkeys(self.begun, words))
            return 1

    def _done(self) -> int:
        self.seen = seen = self.ask(self.limit)
        before = self._part(report_of(self.inventory, seen))
        view = View(before, given=self._head(before))
        self.console.show(table.render(view, self.console.width, next_step=False))
        fixable = {
            name: host
            for name, host in before.hosts.items()
            if any(finding.fixable for finding in host.findings)
        }
        asking = [name for name, each in seen.items() if each.lacks_password]
        # Whether sudo refuses shows in the run, which may have a password for it.
        to_repair = [
            name
            for name, host in fixable.items()
            if not host.without_root or (seen[name].sudo and name not in asking)
        ]
        # Without root it is unknown what else a run would repair.
        if closed := [name for name in brief.without_root(before) if name not in to_repair]:
            self._explain(closed)
        if asking:
            again = [*self._again(), *["--dry"] * self.dry, ASKING]
            self.console.show(whole(f"next: {deploy_command(self.inventory, again)}"))
        switched = any(self.values.get(key) is True for key in _SWITCHES)
        if not to_repair and not switched:
            if closed:
                return 1
            self.console.say(brief.unrepaired(before))
            return _code(before, is_dry=self.dry)
        if self.dry:
            return self._foreseen(before, to_repair)
        self.console.confirm(_question(before, to_repair), "the repair", "nothing was changed")
        self.begun = to_repair
        code = self._repaired(to_repair)
        report, width = report_of(self.inventory, self._proved()), self.console.width
        after = self._part(report)
        view = View(after, options=self._again(), given=self._head(after))
        self.console.show(table.render(view, width, again=True))
        self.console.show(table.answer(View(report), width))
        self.console.show(brief.outcome(before, after))
        self._conclude(before, brief.repaired(before, after))
        return code or _code(after)

    def _conclude(self, before: Report, repaired: Mapping[str, str]) -> None:
        """Show how each run of pyinfra can be taken back, and keep what it has done."""
        runs = dict.fromkeys(self.begun, self.ended[-1].run)
        for each in self.ended:
            runs |= dict.fromkeys(each.recorded, each.run)
            if each.recorded:
                where, first = ranges(each.recorded, before.hosts), each.recorded[0]
                command = next_command("restore", self.inventory, first, "--run", each.run)
                of = f" on {first}, and so on each of them" * (len(each.recorded) > 1)
                line = f"run {each.run} on {where}; to take it back{of}: {command}"
                self.console.show(whole(line))
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

    def _head(self, part: Report) -> str:
        """Return the counts of the areas that the run is to repair; empty where it is all."""
        areas = names_in(self.values.get("areas"))
        return f"{', '.join(areas)} alone: {View(part).head.words}" if areas else ""

    def _explain(self, closed: Sequence[str]) -> None:
        """Print why nodes are not repaired on which the SSH user is not root."""
        states = ((name, self.seen[name].state) for name in closed)
        reasons = ((no_root(state) if state else "", name) for name, state in states)
        for reason, nodes in gathered(reasons).items():
            self.console.say(f"{ranges(nodes)}: the deploy needs root, and {reason}")

    def _repaired(self, to_repair: list[str]) -> int:
        if self.batch is None or not to_repair:
            return self._pyinfra(self._options()).code and 1
        code = 0
        changed: list[str] = []
        parts = self._batches(to_repair)
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
        """Run pyinfra; the first run gets what root has read of the nodes."""
        answers = {
            name: handed(each.wanted, each.state)
            for name, each in self.seen.items()
            if each.state is not None and not each.without_root and not self.ended
        }
        self.ended.append(run_pyinfra(self.inventory, WHOLE, options, answers))
        return self.ended[-1]

    def _proved(self) -> dict[str, Seen]:
        """Return the nodes as the last run proved them; those that it did not reach are asked."""
        found = {
            name: replace(node, state=state, error=None, reached=True)
            for name, node in self.seen.items()
            if (state := taken(self.ended[-1].proved.get(name), node.wanted)) is not None
        }
        left = [name for name in self.seen if name not in found]
        asked = self.ask(left) if left else {}
        return {name: found.get(name) or asked[name] for name in self.seen}

    def _foreseen(self, before: Report, to_repair: list[str]) -> int:
        """Do a dry run, and show what would change, and the next command."""
        if self.batch is not None and to_repair:
            for number, batch in enumerate(self._batches(to_repair), 1):
                self.console.say(f"batch {number}: {ranges(batch)}")
        ended = self._pyinfra([*self._options(), "--dry"])
        self.console.print("".join(f"{line}\n" for line in ended.planned))
        self.console.show(brief.plan_of_each(before, ended.failed))
        self.console.say("Not listed: what shows only after a repair, as in a copied environment.")
        self.console.say("Nothing was changed.")
        self.console.show(whole(f"repair: {deploy_command(self.inventory, self._again())}"))
        return ended.code and 1

    def _batches(self, names: list[str]) -> list[tuple[str, ...]]:
        models = {name: _model(self.seen[name]) for name in names}
        return batches(models, size_of(self.batch or "", len(names)))

    def _again(self) -> list[str]:
        """Return the options of the next run, which is to be like this one."""
        batch = [] if self.batch is None else ["--batch", self.batch]
        return [*self._options(), *batch]

    def _options(self) -> list[str]:
        """Return the options of pyinfra for this run."""
        return [
            *(word for limit in self.limit for word in ("--limit", limit)),
            *(word for data in self.data for word in ("--data", data)),
        ]


def _question(before: Report, to_repair: list[str]) -> str:
    hosts = {name: before.hosts[name] for name in to_repair}
    count = sum(problem.repair != "manual" for problem in problems(hosts))
    what = "this problem" if count == 1 else f"these {count} problems"
    return f"Repair {what} on {ranges(to_repair, before.hosts)}?"


def _model(node: Seen) -> str:
    """Return a node's GPU model, from the inventory or as found; empty where neither knows it."""
    if node.wanted.gpu is not None and node.wanted.gpu.model:
        return node.wanted.gpu.model
    if node.state is not None and node.state.driver.smi is not None:
        for gpu in node.state.driver.smi.gpus:
            return gpu.name
    return ""


def _code(report: Report, is_dry: bool = False) -> int:
    """Return 1 where a node did not answer or, but in a dry run, an error is left; else 0."""
    hosts = report.hosts.values()
    is_left = any(finding.severity == "error" for host in hosts for finding in host.findings)
    return int(any(host.error for host in hosts) or (is_left and not is_dry))


def size_of(word: str, nodes: int) -> int:
    """Return how many of some nodes a batch has, at least 1; ValueError where `word` is neither."""
    if _COUNT.fullmatch(word):
        return int(word)
    if (share := _SHARE.fullmatch(word)) is None:
        raise ValueError(f"found {word!r}; allowed: {ALLOWED}")
    return max(1, math.floor(nodes * int(share[1]) / 100))


def batches(models: Mapping[str, str], size: int) -> list[tuple[str, ...]]:
    """Return nodes in batches; `models` has each node's GPU model, "" where it is not known.

    The first batches hold one node of each model: a fault that all of a model have shows early.
    """
    of_model: dict[str, str] = {}
    for name, model in models.items():
        of_model.setdefault(model, name)
    first = list(of_model.values())
    ordered = [*first, *(name for name in models if name not in first)]
    return [tuple(ordered[at : at + size]) for at in range(0, len(ordered), size)]
