"""Rounds on a virtual machine whose power fails: what its kernel has not written is lost."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from typing_extensions import override

from gpu_node.lab.kernel import ready, saved
from gpu_node.lab.kernel.machine import Machine
from tests.chaos import watch
from tests.chaos.observed import CONTENTS, Watcher, counted, decoded
from tests.chaos.rounds import Disturb, Moment, Rounds
from tests.kernel.products import SECONDS, write_inventory

# It runs the kernel of an update, for which it has no driver.
STATE = saved.BOOTED
NAMES = r"find / -xdev -mindepth 1 -printf '%P\0'"


class Virtual:
    """The machine, which is watched from inside."""

    def __init__(self, machine: Machine) -> None:
        self.name = machine.name
        self._machine = machine

    def contents(self) -> dict[str, bytes | None]:
        """Return the content of each of the files; None where it does not exist."""
        return decoded(self._machine.run(f"set -- /\n{CONTENTS}").stdout)

    def names(self) -> set[str]:
        """Return the paths of all that is on its disk and counts."""
        return counted(self._machine.read(NAMES))

    def watcher(self) -> Watcher:
        """Begin to watch its files, in a separate session."""
        program = shlex.join(["python3", "-c", Path(watch.__file__).read_text()])
        return Watcher([*self._machine._ssh("-S", "none"), program])


class MachineRounds(Rounds):
    """Rounds on a machine with a real kernel."""

    seconds = SECONDS

    def __init__(self, machine: Machine, folder: Path) -> None:
        super().__init__(write_inventory(machine, folder), [Virtual(machine)])
        self._machine = machine

    @override
    def reset(self) -> None:
        """Have the machine as it was saved."""
        self._machine.cut()
        ready.resume(self._machine, STATE)

    def fail_power(self, moment: Moment) -> Disturb:
        """Let its power fail at a moment; it boots again."""

        def fail() -> None:
            boot = self._machine.boot_id()
            run = self._run_as_users_do()
            run.wait_for(moment)
            self._machine.lose_power()
            self._watch_no_more(Watcher.lose)
            self._machine.wait(boot)
            self._watch()
            run.end()

        return fail


@contextmanager
def machine_rounds(folder: Path) -> Iterator[MachineRounds]:
    """Have a machine for some rounds."""
    machine = ready.start(state=STATE)
    try:
        yield MachineRounds(machine, folder)
    finally:
        machine.remove()
