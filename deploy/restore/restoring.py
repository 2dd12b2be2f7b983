"""`gpu-node restore`: one node's configuration files, back to what they were before a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyinfra.api import Host, State
from pyinfra.context import ctx_host

from gpu_node.deploy.console import UserConsole
from gpu_node.deploy.engine.run import of_inventory
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.restore.commands import kinds_of, left_alone
from gpu_node.deploy.restore.node import NodeFiles, Refused, Target
from gpu_node.deploy.restore.records import (
    MOST_FILES,
    RunRecord,
    Unusable,
    files_of,
    place_of,
    runs_back_to,
    unread,
)
from gpu_node.deploy.ssh.root import require_sudo
from gpu_node.facts.ask.gather import NotConnected, chosen, connect, host_data
from gpu_node.facts.ask.session import ProbeError, close
from gpu_node.facts.limits.confirmed import SERVICES, SYSCTL
from gpu_node.facts.ports.state import RECORD
from gpu_node.facts.probe.records import ABSENT
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.errors import shown, worded
from gpu_node.inventories.escape import visible
from gpu_node.inventories.interrupt import LINE, at_once
from gpu_node.inventories.next_command import next_command
from gpu_node.inventories.plurals import counted, few

_MOST_LISTED, _MOST_COMMANDS = 20, 100
# With these files a restore puts back what goes on.
_LIVE_TOO = (RECORD, SYSCTL, SERVICES)


class NotRestored(Exception):
    """Nothing was written; str() is for the user, without the name of the node."""


class NoSuchRun(Exception):
    """The node has no such run; str() is for the user."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks for: the node, the run (empty: the last), and what is left out."""

    inventory: str
    node: str
    run: str = ""
    skip_changed: bool = False
    dry: bool = False
    # The runs of the node are listed alone.
    listed: bool = False


def restore(
    asked: Asked,
    console: UserConsole,
    keep: Callable[[str, Mapping[str, str]], None] = lambda run, words: None,
) -> int:
    """Put the files of one node back, if the user confirms; return the exit code.

    `keep` gets the id of the restore, and what it has done on the node. Raises NotRestored,
    NoSuchRun, Unconfirmed, PyinfraError for an unusable inventory.
    """
    host_data(asked.inventory, asked.node)
    SUDO.be_typed()
    stage = ["nothing was changed"]
    with (
        at_once(lambda: f"{LINE}; {stage[0]}"),
        chosen(asked.inventory, (asked.node,)) as (state, hosts),
    ):
        (host,) = (each for each in hosts if each.name == asked.node)
        with ctx_host.use(host):
            try:
                _open(state, host)
                node = NodeFiles(host, of_inventory(host))
                return _Restoring(asked, console, node, stage, keep).done()
            except (Refused, Unusable, NotConnected, ProbeError) as error:
                raise NotRestored(visible(str(error))) from error
            finally:
                close(host.connector)


def _open(state: State, host: Host) -> None:
    connect(state, host)
    require_sudo(host)


class _Restoring:
    """One restore of one node; `stage` has what an interruption leaves."""

    def __init__(
        self,
        asked: Asked,
        console: UserConsole,
        node: NodeFiles,
        stage: list[str],
        keep: Callable[[str, Mapping[str, str]], None],
    ) -> None:
        self.asked, self.console, self.node, self.stage = asked, console, node, stage
        self.keep = keep

    def done(self) -> int:
        """Return the exit code."""
        recorded = self.node.runs()
        if self.asked.listed:
            self.console.print("".join(f"{run_shown(run)}\n" for run in recorded))
            if not recorded:
                self.console.say(f"no record of a run in {self.node.top}")
            return 0
        runs = self._chosen(recorded)
        found = self._targets(runs)
        if kept := [each for each in found if each.problem]:
            self._explain(kept)
        left = self._leave(runs)
        writes = [each for each in found if each.now]
        self._show(runs, writes)
        for each in found:
            if not each.now and not each.problem:
                self.console.say(f"{each.path}: is as it was before the run")
        if not writes:
            self.console.say("No file is to be put back; nothing was changed")
            return 1 if left and not self.asked.dry else 0
        if self.asked.dry:
            self.console.say("Nothing was changed.")
            return 0
        count = counted(len(writes), "file")
        self.node.require_idle()
        question = f"Put {count} back on {self.asked.node} as before run {runs[-1].name}?"
        self.console.confirm(question, "the restore", "nothing was changed")
        self.node.require_idle()
        return max(self._written(writes, runs[-1].name), 1 if left else 0)

    def _chosen(self, recorded: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
        """Return the runs to take back, the newest first."""
        if not recorded:
            why = f"none in {self.node.top}; nothing was changed"
            raise NotRestored(worded("no record of a run", why, "a node that a run has changed"))
        if runs := runs_back_to(recorded, self.asked.run or recorded[0].name):
            for run in runs:
                if run.problem:
                    raise Unusable(f"run {run.name}: {run.problem}; nothing was changed")
            return runs
        why = f"no such run on {self.asked.node}"
        allowed = ", ".join(map(run_shown, recorded[:_MOST_LISTED]))
        raise NoSuchRun(f"--run: {worded(shown(self.asked.run), why, allowed)}")

    def _targets(self, runs: Sequence[RunRecord]) -> list[Target]:
        left = unread(runs)
        files = {path: user for path, user in files_of(runs).items() if path not in left}
        if len(files) > MOST_FILES:
            raise Unusable(f"the runs name {len(files)} files, more than {MOST_FILES}")
        return self.node.look(runs, files)

    def _explain(self, kept: Sequence[Target]) -> None:
        """Name the files that changed since; raises NotRestored unless they are to be left out."""
        lines = [f"{each.path}: {each.problem}" for each in kept]
        if self.asked.skip_changed:
            for line in lines:
                self.console.say(f"left as it is: {line}")
            return
        backups = f"{self.node.top}/RUN/PATH on the node"
        then = f"compare them with {backups}, or leave them as they are: --skip-changed"
        count = counted(len(kept), "file")
        why = "the earlier content would undo another program's work; nothing was changed"
        problem = worded(f"{count} changed since", why, "files as the run left them", then)
        raise NotRestored("\n".join([problem, *(f"  {line}" for line in lines)]))

    def _leave(self, runs: Sequence[RunRecord]) -> int:
        """Name the files whose record is not one of a run; return how many are left as they are."""
        left = unread(runs)
        lines = (why if path == why else f"{path}: {why}" for path, why in left.items())
        for line in few(lines, _MOST_LISTED, f"{{}} more, see {self.node.top}"):
            self.console.say(f"left as it is: {line}")
        return len(left)

    def _show(self, runs: Sequence[RunRecord], writes: Sequence[Target]) -> None:
        """Show what becomes of each file, what stays live, and what is left to the user."""
        for run in runs:
            self.console.say(f"takes back run {run_shown(run)}")
        lines = [line for each in writes for line in _lines(each)]
        lines += [f"stays: {each}" for each in _live(writes)]
        others = dict.fromkeys(left_alone(runs, self.node.top))
        shown = few(others, _MOST_COMMANDS, f"{{}} more, see {self.node.top}")
        lines += [f"left to you: {each}" for each in shown]
        if lines:
            self.console.print("".join(f"{line}\n" for line in lines))

    def _written(self, writes: Sequence[Target], before: str) -> int:
        run = replacement.run()
        then = next_command("restore", self.asked.inventory, self.asked.node, "--run", run)
        self.stage[0] = f"some files are back; to take that back: {then}"
        failed = 0
        for each in writes:
            problem, printed = self.node.put_back(each)
            for line in printed[:_MOST_LISTED]:
                self.console.say(line.removeprefix("gpu-node: "))
            if problem:
                failed += 1
                self.console.say(f"{each.path}: not put back: {problem}")
        if failed < len(writes):
            count = counted(len(writes) - failed, "file")
            self.console.say("a deploy repairs again what the inventory still asks for")
            self.console.say(f"{count} put back as run {run}; to take it back: {then}")
            self.keep(run, {self.asked.node: f"{count} as before run {before}"})
        return 1 if failed else 0


def _lines(write: Target) -> list[str]:
    """Return what becomes of a file."""
    back = "is written again" if write.now == ABSENT else "gets its earlier content"
    what = "is removed" if write.before == ABSENT else back
    return [f"{write.path}: {what}", *(f"  {line}" for line in write.lines)]


def _live(writes: Sequence[Target]) -> list[str]:
    """Return what goes on with the content that the files have now, and what ends that."""
    found = [(each.path, place_of(each.path, each.user)) for each in writes]
    return [
        f"{path}: {place.live}{f': {place.then}' if place.then else ''}"
        for path, place in found
        if place is not None and place.live and path not in _LIVE_TOO
    ]


# What a run notes beside files, as a list of runs has it.
_KINDS = {
    "deb": "package",
    "rpm": "package",
    "wheels": "wheel",
    "base-wheels": "wheel",
    "module": "kernel module",
    "copy": "copied environment",
    "persistence": "enabled service",
}


def run_shown(run: RunRecord) -> str:
    """Return a run with what it has changed: how many files, and what else, by its kind."""
    what = {"file": len({each.path for each in run.changes})}
    kinds = sorted(_KINDS.get(kind, kind) for kind in kinds_of(run))
    what |= {kind: kinds.count(kind) for kind in kinds}
    changed = ", ".join(counted(number, kind) for kind, number in what.items() if number)
    return f"{run.name} ({changed or 'nothing'}, {run.when:%Y-%m-%d %H:%M} UTC)"
