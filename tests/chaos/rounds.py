"""Rounds: a run on nodes as found is disturbed, the next one converges; and what was seen."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from typing_extensions import override

from gpu_node.lab import faults, nodes, roster
from tests.chaos import power
from tests.chaos.observed import Container, Seen, Server, Watcher, left
from tests.e2e.conftest import write_inventory
from tests.e2e.on_lab import BIN, DEPLOY, MANAGED, SECONDS, converge
from tests.lanes import end_with_parent

# With it a run has a daemon's file to replace, too.
DOCKER = faults.find("shm-docker-default")
START_DOCKER = "setsid /usr/bin/dockerd </dev/null >/dev/null 2>&1 & echo $! >/run/docker.pid"
BEGUN = "--> Starting operation: "
Disturb = Callable[[], None]


@dataclass(frozen=True, order=True)
class Moment:
    """Some seconds after an operation has begun; the first operation is 0."""

    operation: int
    seconds: float


@dataclass
class Outcome:
    """What was seen in a round."""

    # Output of the run that did not converge; empty if it did.
    problem: str = ""
    # Files of which a part was seen, and paths that no undisturbed run leaves.
    partial: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    seconds: float = 0

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.problem or self.partial or self.left)


class Running:
    """A run of pyinfra, with the operations that have begun, and when."""

    def __init__(self, *command: str, seconds: int) -> None:
        self._seconds = seconds
        self.begun = time.monotonic()
        self.operations: list[str] = []
        self.began: list[float] = []
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command,
            cwd=roster.REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(end_with_parent, signal.SIGKILL),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith(BEGUN):
                self.operations.append(line.removeprefix(BEGUN).strip())
                self.began.append(time.monotonic() - self.begun)

    def wait_for(self, moment: Moment) -> None:
        """Wait for a moment, or for the end of the run."""
        while self.process.poll() is None:
            if len(self.began) > moment.operation:
                due = self.begun + self.began[moment.operation] + moment.seconds
                if time.monotonic() >= due:
                    return
            time.sleep(0.02)

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        code = self.process.wait(self._seconds)
        self._reader.join(self._seconds)
        return code

    @property
    def output(self) -> str:
        """All that it has printed."""
        return "".join(self.lines)


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing disturbs: its operations, when each began, and what it leaves."""

    operations: list[str]
    began: list[float]
    seconds: float
    names: dict[str, set[str]]

    def moments(self, number: int, chance: random.Random) -> list[Moment]:
        """Choose operations, and for each a part of the time that it takes on this machine."""
        ends = [*self.began[1:], self.seconds]
        took = [end - began for began, end in zip(self.began, ends, strict=True)]
        chosen = [(chance.randrange(len(took)), chance.random()) for _ in range(number)]
        return [Moment(each, part * took[each]) for each, part in chosen]

    def name(self, moment: Moment) -> str:
        """Describe a moment."""
        return f"{moment.seconds:.1f} s into {self.operations[moment.operation]}"


class Rounds(ABC):
    """Rounds on some servers, with one inventory; a run takes at most so many seconds."""

    seconds = SECONDS

    def __init__(self, inventory: str, servers: Sequence[Server]) -> None:
        self._inventory = inventory
        self._servers = servers
        self._watchers: list[tuple[Watcher, Seen]] = []
        self._seen: dict[str, Seen] = {}

    @abstractmethod
    def reset(self) -> None:
        """Have the servers as found."""

    def _run(self, *program: str) -> Running:
        return Running(*program, "-y", self._inventory, DEPLOY, seconds=self.seconds)

    def _run_as_users_do(self) -> Running:
        return self._run(str(BIN / "pyinfra"))

    @cached_property
    def undisturbed(self) -> Undisturbed:
        """A run that nothing disturbs."""
        self.reset()
        run = self._run_as_users_do()
        assert run.end() == 0, run.output
        seconds = time.monotonic() - run.begun
        names = {each.name: each.names() for each in self._servers}
        return Undisturbed(run.operations, run.began, seconds, names)

    def round(self, disturb: Disturb) -> Outcome:
        """Have a run disturbed, and converge."""
        usual = self.undisturbed.names
        begun = time.monotonic()
        self.reset()
        before = {each.name: each.contents() for each in self._servers}
        self._seen = {each.name: Seen() for each in self._servers}
        self._watch()
        try:
            disturb()
            done = converge(self._inventory, seconds=self.seconds)
        except BaseException:
            self._watch_no_more(Watcher.lose)
            raise
        self._watch_no_more()
        found = Outcome(done.err if done.code else "")
        for each in self._servers:
            partial = self._seen[each.name].partial(before[each.name], each.contents())
            found.partial += [f"{each.name}:{path}" for path in sorted(partial)]
            found.left += [f"{each.name}:/{path}" for path in left(each.names(), usual[each.name])]
        found.seconds = time.monotonic() - begun
        return found

    def _watch(self) -> None:
        for each in self._servers:
            self._watchers.append((each.watcher(), self._seen[each.name]))

    def _watch_no_more(self, end: Callable[[Watcher, Seen], None] = Watcher.end) -> None:
        while self._watchers:
            end(*self._watchers.pop())


class LabRounds(Rounds):
    """Rounds on the two managed nodes of the lab."""

    def __init__(self, folder: Path) -> None:
        inventory = write_inventory(folder, {DOCKER.node: DOCKER.inventory})
        super().__init__(inventory, [Container(node) for node in MANAGED])

    @override
    def reset(self) -> None:
        """Have the nodes as found, with Docker on one of them."""
        nodes.reset(MANAGED)
        faults.inject(DOCKER)

    def kill_after(self, number: int) -> Disturb:
        """Kill the run after so many operations."""

        def kill() -> None:
            run = self._run(sys.executable, "-m", "tests.chaos.stopping", str(number))
            assert run.end() == -signal.SIGKILL, run.output

        return kill

    def kill_at(self, moment: Moment) -> Disturb:
        """Kill the run at a moment."""

        def kill() -> None:
            run = self._run_as_users_do()
            run.wait_for(moment)
            run.process.kill()
            run.end()

        return kill

    def kill_nodes(self, moments: Sequence[Moment]) -> Disturb:
        """Kill each node at its moment, and boot it again."""

        def kill() -> None:
            run = self._run_as_users_do()
            for moment, node in sorted(zip(moments, MANAGED, strict=True)):
                run.wait_for(moment)
                nodes.stop(node)
                _boot(node)
            run.end()

        return kill

    def fail_power(self, moment: Moment) -> Disturb:
        """Let the power of all nodes fail at a moment, and boot them again."""

        def fail() -> None:
            power.save()
            run = self._run_as_users_do()
            run.wait_for(moment)
            power.fail(self._watch_no_more)
            for node in MANAGED:
                _boot(node)
            self._watch()
            run.end()

        return fail


def _boot(node: str) -> None:
    nodes.start(node)
    if node == DOCKER.node:
        nodes.execute(node, START_DOCKER)
