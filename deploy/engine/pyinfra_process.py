"""Runs pyinfra's command on an inventory, and passes Ctrl-C on to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FrameType

from gpu_node.deploy.engine.pyinfra_child import HELD_BACK
from gpu_node.facts.ask.pyinfra_file import loadable
from gpu_node.facts.probe.lines import lines_of
from gpu_node.inventories.interrupt import Interrupted, handled

CHILD = "gpu_node.deploy.engine.pyinfra_child"
DEPLOYS = Path(__file__).resolve().parents[1]
WHOLE = DEPLOYS / "gpu_node.py"
ENVIRONMENTS = DEPLOYS / "environments.py"
# Has a server's password: pyinfra does not get it.
VARIABLE = "GPU_NODE_PASSWORD"


@dataclass(frozen=True)
class Ended:
    """How a run of pyinfra ended: its exit code and the nodes that failed, as far as it knew."""

    code: int
    failed: tuple[str, ...]


def run_pyinfra(inventory: str, deploy: Path, options: Sequence[str] = ()) -> Ended:
    """Run a deploy over an inventory, with pyinfra's options, without questions.

    With `--dry` pyinfra lists the operations; with `-y` as well it would list none.

    Raises Interrupted where a signal ended it, and OSError where no temporary file can be written.
    """
    file, group_data = loadable(inventory)
    data = [word for folder in group_data for word in ("--group-data", folder)]
    with NamedTemporaryFile("r", prefix="gpu-node-failed-") as failed:
        child = [sys.executable, "-m", CHILD, str(os.getpid()), failed.name]
        yes = [] if "--dry" in options else ["-y"]
        code = _Run().ended([*child, *yes, *data, file, str(deploy), *options])
        return Ended(code, tuple(lines_of(failed.read())))


class _Run:
    """A child process that gets the signals of this one; `pressed` are those received so far."""

    def __init__(self) -> None:
        self.pressed: list[int] = []
        self.process: subprocess.Popen[bytes] | None = None

    def ended(self, command: Sequence[str]) -> int:
        """Return its exit code; raises Interrupted where a signal ended it."""
        kept = {key: value for key, value in os.environ.items() if key != VARIABLE}
        with handled(self._received):
            # Blocked in the child, which unblocks them when it can exit without a traceback.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
            try:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=kept)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            with self.process as process:
                if self.pressed:  # another thread took it meanwhile
                    self._pass_on(process)
                code = process.wait()
        if self.pressed:
            raise Interrupted
        return code

    def _received(self, number: int, frame: FrameType | None) -> None:
        self.pressed.append(number)
        if self.process is not None:
            self._pass_on(self.process)

    def _pass_on(self, process: subprocess.Popen[bytes]) -> None:
        """Pass the first signal on; the second becomes SIGTERM, which ends the child at once."""
        process.send_signal(self.pressed[0] if len(self.pressed) == 1 else signal.SIGTERM)
