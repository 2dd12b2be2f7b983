"""Runs pyinfra's command on an inventory, and passes Ctrl-C on to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FrameType

from gpu_node.deploy.engine.pyinfra_child import HELD_BACK
from gpu_node.facts.ask.pyinfra_file import loadable
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.interrupt import Interrupted, handled

CHILD = "gpu_node.deploy.engine.pyinfra_child"
DEPLOYS = Path(__file__).resolve().parents[1]
WHOLE = DEPLOYS / "gpu_node.py"
ENVIRONMENTS = DEPLOYS / "environments.py"
# Has a server's password: pyinfra does not get it.
VARIABLE = "GPU_NODE_PASSWORD"


@dataclass(frozen=True)
class Ended:
    """How a run of pyinfra ended: its exit code and the nodes that failed, as far as it knew.

    `recorded` are the nodes that keep what was before the `run`, by its name; `planned` are the
    lines about what a dry run would do.
    """

    code: int
    failed: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    run: str = ""
    planned: tuple[str, ...] = ()


def run_pyinfra(inventory: str, deploy: Path, options: Sequence[str] = ()) -> Ended:
    """Run a deploy over an inventory, with pyinfra's options, without questions.

    With `--dry` pyinfra plans the operations; with `-y` as well it would not. Its own list of them
    is JSON then, which is dropped: `planned` has more.

    Raises Interrupted where a signal ended it, and OSError where no temporary file can be written.
    """
    file, group_data = loadable(inventory)
    data = [word for folder in group_data for word in ("--group-data", folder)]
    with NamedTemporaryFile("r", prefix="gpu-node-ended-") as ended:
        child = [sys.executable, "-m", CHILD, str(os.getpid()), ended.name]
        how = ["--json"] if "--dry" in options else ["-y"]
        code = _Run().ended([*child, *how, *data, file, str(deploy), *options])
        given = json.loads(ended.read() or "{}")
        lists = {key: tuple(each) for key, each in given.items() if isinstance(each, list)}
        return Ended(code, **{**given, **lists})


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
                out = subprocess.DEVNULL if "--json" in command else None
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=out, env=kept
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            with self.process as process:
                if process.stdin is not None:
                    with suppress(BrokenPipeError), process.stdin as stdin:
                        stdin.write(SUDO.to_child())
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
