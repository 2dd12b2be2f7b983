"""Runs pyinfra over an inventory as a person would, and waits for it, whatever key is pressed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FrameType

from deploy.child import HELD_BACK
from onboarding.password import VARIABLE
from onboarding.signals import handled
from onboarding.site import Site
from onboarding.stopped import Stopped

REPOSITORY = Path(__file__).resolve().parents[1]
WHOLE = REPOSITORY / "deploy" / "gpu_node.py"
ENVIRONMENTS = REPOSITORY / "deploy" / "environments.py"


class Interrupted(Exception):
    """Ctrl-C while pyinfra was at work; it has ended by itself."""


class Unfinished(Stopped):
    """A run that did not end as converged; `nodes` are those that failed, as far as it knew."""

    def __init__(self, code: int, nodes: tuple[str, ...]) -> None:
        super().__init__(f"pyinfra ended with {code}; what it says above is why")
        self.nodes = nodes


def pyinfra(site: Site, deploy: Path = WHOLE, **data: str) -> None:
    """Run a deploy over all nodes of a site; Unfinished where it did not end as converged."""
    arguments = ["-y", str(site.inventory), str(deploy)]
    for key, value in data.items():
        arguments += ["--data", f"{key}={value}"]
    with NamedTemporaryFile("r", prefix="gpu-node-failed-") as failed:
        child = [sys.executable, "-m", "deploy.child", str(os.getpid()), failed.name]
        code = _Run().ended([*child, *arguments])
        nodes = tuple(failed.read().splitlines())
    if code != 0:
        raise Unfinished(code, nodes)


class _Run:
    """A process to which Ctrl-C and its like are passed on; `pressed` are those that came."""

    def __init__(self) -> None:
        self.pressed: list[int] = []
        self.process: subprocess.Popen[bytes] | None = None

    def ended(self, command: Sequence[str]) -> int:
        """Return what it ends with; raises Interrupted where it was ended."""
        kept = {key: value for key, value in os.environ.items() if key != VARIABLE}
        with handled(self._heed):
            # It begins with them held back, and heeds them when it can do so in silence.
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

    def _heed(self, number: int, frame: FrameType | None) -> None:
        self.pressed.append(number)
        if self.process is not None:
            self._pass_on(self.process)

    def _pass_on(self, process: subprocess.Popen[bytes]) -> None:
        """Pass the first one on; who presses again does not wait until it is heeded."""
        process.send_signal(self.pressed[0] if len(self.pressed) == 1 else signal.SIGTERM)
