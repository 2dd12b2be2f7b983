"""A session of the tests: which shells it has, a test that hangs, and the folders it removes."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.lanes import QUICK, SHELLS

HERE = Path(__file__).parent
FOLDERS = 400
DESCRIPTORS = 200
USES_GEVENT = """
from gevent import monkey, sleep
monkey.patch_all()

def test_a_turn_of_the_hub(tmp_path):
    sleep(0)
"""


def session(
    folder: Path, tests: str, *options: str, before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a session of the tests of one file, whose sessions have their folders beside it."""
    (folder / "test_it.py").write_text(tests)
    words = ["-m", "pytest", "-p", "tests.conftest", "-c", "pyproject.toml"]
    return subprocess.run(
        [*before, sys.executable, *words, str(folder / "test_it.py"), *options],
        cwd=HERE.parent,
        env={**os.environ, "PYTEST_DEBUG_TEMPROOT": str(folder)},
        capture_output=True,
        text=True,
    )


def test_a_session_with_gevent_removes_a_large_one(tmp_path: Path) -> None:
    """More folders than the process may have open."""
    sessions = tmp_path / f"pytest-of-{getpass.getuser()}"
    old = sessions / "pytest-0"
    for number in range(FOLDERS):
        (old / f"test_{number}").mkdir(parents=True)
    for number in range(1, 4):
        (sessions / f"pytest-{number}").mkdir()
    sessions.chmod(0o700)
    limit = ["sh", "-c", f'ulimit -Sn {DESCRIPTORS} && exec "$@"', "sh"]
    done = session(tmp_path, USES_GEVENT, before=limit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not old.exists()
    assert not list(sessions.glob("garbage-*"))


IN_SHELLS = """
import pytest
from tests.shells import SHELLS

@pytest.mark.parametrize("word", ["a", "b", "c"])
@pytest.mark.parametrize("shell", SHELLS)
def test_each(shell, word): ...

def test_none(): ...
"""


@pytest.mark.parametrize(("lane", "count"), [(QUICK, 4), (SHELLS, 9)])
def test_one_shell_a_test_is_quick(tmp_path: Path, lane: str, count: int) -> None:
    """The lane `shells` has the others."""
    done = session(tmp_path, IN_SHELLS, "-m", lane, "-rp")
    ran = re.findall(r"PASSED \S+test_each\[\S+-([abc])\]", done.stdout)
    assert f"{count} passed" in done.stdout
    assert sorted(ran) == sorted("abc" * (count // 3))


MARKED = """
from pytest import mark

@mark.slurm
def test_on_slurm(): ...

def test_here(): ...
"""


@pytest.mark.parametrize(
    ("lane", "needs", "others"), [("slurm", "srun", "busybox"), ("not slurm", "busybox", "srun")]
)
def test_a_program_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lane: str, needs: str, others: str
) -> None:
    """Of the tests that were chosen alone."""
    monkeypatch.setenv("PATH", str(tmp_path))
    done = session(tmp_path, MARKED, "-m", lane)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"{needs}, " in done.stdout + done.stderr and others not in done.stdout + done.stderr
    assert "not installed; run: make setup-dev" in done.stdout + done.stderr


HANGS = """
import gevent, time
from gevent.event import Event

def waits_for_nothing():
    gevent.spawn(Event().wait)
    {wait}

def test_hangs():
    waits_for_nothing()
"""


@pytest.mark.parametrize("wait", ["Event().wait(60)", "while True: pass"])
def test_a_test_that_hangs_is_named(tmp_path: Path, wait: str) -> None:
    """With what its threads and greenlets do, whether it waits or works."""
    done = session(tmp_path, HANGS.format(wait=wait), "--timeout=1")
    assert done.returncode == 1
    assert "::test_hangs does not end" in done.stdout
    assert "in waits_for_nothing" in done.stdout
