"""Runs pyinfra's command on an inventory, and passes Ctrl-C on to it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType
from typing import IO, Any

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
    lines about what a dry run would do, `proved` has the answers of nodes after it.
    """

    code: int
    failed: Sequence[str] = ()
    recorded: Sequence[str] = ()
    run: str = ""
    planned: Sequence[str] = ()
    proved: Mapping[str, Any] = field(default_factory=dict)


def run_pyinfra(
    inventory: str,
    deploy: Path,
    options: Sequence[str] = (),
    answers: Mapping[str, Any] | None = None,
) -> Ended:
    """Run a deploy over an inventory, with pyinfra's options, without questions.

    Nodes that have just given `answers` are not asked before it. With `--dry` pyinfra plans the
    operations; with `-y` as well it would not. Its own list of them is JSON then, which is dropped:
    `planned` has more.

    Raises Interrupted where a signal ended it, and OSError where no temporary file can be written.
    """
    SUDO.be_typed()
    file, group_data = loadable(inventory)
    data = [word for folder in group_data for word in ("--group-data", folder)]
    # It has no name: no other user opens it, and it ends with the two processes.
    with TemporaryFile("r") as ended:
        child = [sys.executable, "-m", CHILD, str(os.getpid()), str(ended.fileno())]
        how = ["--json"] if "--dry" in options else ["-y"]
        words = [*child, *how, *data, file, str(deploy), *options]
        try:
            code = _Run().ended(words, json.dumps([SUDO.to_child(), answers or {}]), ended.fileno())
        except Interrupted as error:
            error.run = _given(ended).get("run", "")
            raise
        return Ended(code, **_given(ended))


def _given(ended: IO[str]) -> dict[str, Any]:
    """Return what the child has written; nothing if it was killed."""
    ended.seek(0)
    try:
        given: dict[str, Any] = json.load(ended)
    except ValueError:
        return {}
    return given


class _Run:
    """A child process that gets the signals of this one; `pressed` are those received so far."""

    def __init__(self) -> None:
        self.pressed: list[int] = []
        self.process: subprocess.Popen[bytes] | None = None

    def ended(self, command: Sequence[str], given: str, file: int) -> int:
        """Return its exit code; `given` is its stdin, and it has an open file of this process too.

        Raises Interrupted where a signal ended it.
        """
        kept = {key: value for key, value in os.environ.items() if key != VARIABLE}
        with handled(self._received):
            # Blocked in the child, which unblocks them when it can exit without a traceback.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
            try:
                out = subprocess.DEVNULL if "--json" in command else None
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=out, env=kept, pass_fds=[file]
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            with self.process as process:
                if process.stdin is not None:
                    with suppress(BrokenPipeError), process.stdin as stdin:
                        stdin.write(given.encode())
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
