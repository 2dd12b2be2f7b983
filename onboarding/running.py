"""Runs pyinfra over an inventory as a person would, and waits for it, whatever key is pressed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from onboarding.password import VARIABLE
from onboarding.signals import handled
from onboarding.site import Site
from onboarding.stopped import Stopped

REPOSITORY = Path(__file__).resolve().parents[1]
WHOLE = REPOSITORY / "deploy" / "gpu_node.py"
ENVIRONMENTS = REPOSITORY / "deploy" / "environments.py"


class Interrupted(Exception):
    """Ctrl-C while pyinfra was at work; it has ended by itself."""


def pyinfra(site: Site, deploy: Path = WHOLE, **data: str) -> None:
    """Run a deploy over all nodes of a site; Stopped where it did not end as converged."""
    command = [sys.executable, "-m", "pyinfra", "-y", str(site.inventory), str(deploy)]
    for key, value in data.items():
        command += ["--data", f"{key}={value}"]
    kept = {key: value for key, value in os.environ.items() if key != VARIABLE}
    with (
        subprocess.Popen(command, stdin=subprocess.DEVNULL, env=kept) as run,
        _passed_on(run) as pressed,
    ):
        code = run.wait()
    if pressed:
        raise Interrupted
    if code != 0:
        raise Stopped(f"pyinfra ended with {code}; what it says above is why")


@contextmanager
def _passed_on(run: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Pass Ctrl-C and its like on to a run, which ends itself by it, and tell whether it came."""
    pressed: list[int] = []

    def passed_on(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        run.send_signal(number)

    with handled(passed_on):
        yield pressed
