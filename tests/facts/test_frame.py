"""What stands around the sections: nothing of it outlives the probe."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from gpu_node.facts.probe.frame import BEGIN, END
from tests.shells import SHELLS


def test_nothing_sleeps_on(shell: str) -> None:
    """A deploy's next step would refuse to go on beside a process of the SSH user's."""
    script = f"{BEGIN}\nsleep 0.5\n{END}\n"
    with subprocess.Popen(
        [*SHELLS[shell], "-c", script], stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as probe:
        output, _ = probe.communicate(timeout=9)
        left = _left(probe.pid)
        with suppress(ProcessLookupError):
            os.killpg(probe.pid, signal.SIGKILL)
    assert output.strip().endswith("done")
    assert left == []


def _left(session: int) -> list[tuple[str, str]]:
    """Return what lives on for some seconds: a program that gets SIGTERM does not end at once."""
    until = time.monotonic() + 5
    while True:
        left = [each for each in _processes(session) if each[1] != "Z"]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.02)


def _processes(session: int) -> list[tuple[str, str]]:
    """Return name and state of each process of a session, see proc(5)."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = each.read_text().rpartition(")")
            state, _, _, of = rest.split()[:4]
            if int(of) == session:
                found.append((name, state))
    return found
