"""Ctrl-C while the command makes its imports: one line and exit 1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.interrupt import LINE
from tests.cli.running import run, start

REPOSITORY = Path(__file__).parents[2]
START = """
import signal
signal.signal(signal.SIGINT, {handler})
from cli.main import main
main()
"""
# Stands where the first import finds it.
PRESSED = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def _started(folder: Path, handler: str) -> subprocess.CompletedProcess[str]:
    (folder / "gevent.py").write_text(PRESSED)
    return subprocess.run(
        [sys.executable, "-c", START.format(handler=handler)],
        env={**os.environ, "PYTHONPATH": f"{folder}:{REPOSITORY}"},
        capture_output=True,
        text=True,
    )


def test_it_ends_in_one_line(tmp_path: Path) -> None:
    done = _started(tmp_path, "signal.default_int_handler")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{LINE}\n")


def test_where_it_is_ignored_it_stays_so(tmp_path: Path) -> None:
    """The stand-in has nothing of gevent's, which is what ends it then."""
    done = _started(tmp_path, "signal.SIG_IGN")
    assert LINE not in done.stderr and "ImportError" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["gpu-node", "--version"],
        ["gpu-node", "drift", "--no-such-option"],
        ["pyinfra", "--version"],
        ["pyinfra", "-y", "inventories/none.py", "deploy/gpu_node.py"],
    ],
    ids=" ".join,
)
def test_the_installed_commands_start(words: list[str]) -> None:
    """They do by themselves what the other tests see in forks of one start."""
    assert start(*words) == run(*words)
