"""Runs pyinfra's command on an inventory, and passes Ctrl-C on to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FrameType

from gpu_node.deploy.engine.pyinfra_child import HELD_BACK
from gpu_node.facts.ask.pyinfra_file import loadable
from gpu_node.inventories.interrupt import Interrupted, handled
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.inventory_files import Site
from gpu_node.onboarding.trust.password import VARIABLE

CHILD = "gpu_node.deploy.engine.pyinfra_child"
REPOSITORY = Path(__file__).resolve().parents[1]
WHOLE = REPOSITORY / "deploy" / "gpu_node.py"
ENVIRONMENTS = REPOSITORY / "deploy" / "environments.py"


class Unfinished(Stopped):
    """A run that did not end as converged; `nodes` are those that failed, as far as it knew."""

    def __init__(self, code: int, nodes: tuple[str, ...]) -> None:
        super().__init__(f"pyinfra ended with {code}; its output above gives the reason")
        self.nodes = nodes


def pyinfra(site: Site, deploy: Path = WHOLE, **data: str) -> None:
    """Run a deploy over all nodes of a site; Unfinished where it did not end as converged."""
    options = [word for key, value in data.items() for word in ("--data", f"{key}={value}")]
    with (
        NamedTemporaryFile("r", prefix="gpu-node-failed-") as failed,
        loadable(str(site.inventory)) as inventory,
    ):
        child = [sys.executable, "-m", CHILD, str(os.getpid()), failed.name]
        code = _Run().ended([*child, "-y", inventory, str(deploy), *options])
        nodes = tuple(failed.read().splitlines())
    if code != 0:
        raise Unfinished(code, nodes)


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
