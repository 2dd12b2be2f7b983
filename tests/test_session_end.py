"""The end of a session: pytest removes the folders of earlier ones, however many they are."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = 400
DESCRIPTORS = 200
USES_GEVENT = """
from gevent import monkey, sleep
monkey.patch_all()

def test_a_turn_of_the_hub(tmp_path):
    sleep(0)
"""


def test_a_session_with_gevent_removes_a_large_one(tmp_path: Path) -> None:
    """More folders than the process may have open."""
    sessions = tmp_path / f"pytest-of-{getpass.getuser()}"
    old = sessions / "pytest-0"
    for number in range(FOLDERS):
        (old / f"test_{number}").mkdir(parents=True)
    for number in range(1, 4):
        (sessions / f"pytest-{number}").mkdir()
    sessions.chmod(0o700)
    test = tmp_path / "test_gevent.py"
    test.write_text(USES_GEVENT)
    words = ["-m", "pytest", "-p", "tests.conftest", "-c", "pyproject.toml", str(test)]
    done = subprocess.run(
        ["sh", "-c", f'ulimit -Sn {DESCRIPTORS} && exec "$@"', "sh", sys.executable, *words],
        cwd=HERE.parent,
        env={**os.environ, "PYTEST_DEBUG_TEMPROOT": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not old.exists()
    assert not list(sessions.glob("garbage-*"))
