"""The width and the colours of a report: on any terminal, and in a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_node.drift.report.signs import SEVERITY_STYLES
from tests.commands import REPOSITORY, SECONDS, environment

DRIFT = [sys.executable, "-m", "tests.cli.answering", "drift", "inventories/lab.py"]


def on_terminal(variables: dict[str, str]) -> str:
    """What a report prints on a terminal."""
    spawn = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])", *DRIFT]
    done = subprocess.run(
        spawn,
        cwd=REPOSITORY,
        env={**environment(), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return done.stdout.decode().replace("\r\n", "\n")


def widest(text: str) -> int:
    return max(len(line.rstrip()) for line in text.splitlines())


@pytest.mark.parametrize(
    ("variables", "least", "most"), [({}, 60, 80), ({"COLUMNS": "120"}, 81, 120)]
)
def test_a_dumb_terminal_has_a_width(variables: dict[str, str], least: int, most: int) -> None:
    """rich takes each for one of 80 columns, whatever COLUMNS says."""
    text = on_terminal({"TERM": "dumb", **variables})
    assert "\x1b" not in text and "shm.too-small" in text
    assert least <= widest(text) <= most


@pytest.mark.parametrize(
    ("columns", "least", "most"), [(None, 81, 100), ("72", 50, 72), ("x", 81, 100)]
)
def test_a_file_has_a_width(tmp_path: Path, columns: str | None, least: int, most: int) -> None:
    """That of COLUMNS, else 100: a report in a file is read on a terminal, too."""
    env = {**environment(), **({} if columns is None else {"COLUMNS": columns})}
    words = [*DRIFT, "--full", "-o", str(tmp_path / "report")]
    subprocess.run(words, cwd=REPOSITORY, env=env, timeout=SECONDS, check=False)
    assert least <= widest((tmp_path / "report").read_text()) <= most


def test_colours_are_read_on_black_and_on_white() -> None:
    """Yellow and cyan are pale on white, blue is dark on black."""
    words = {word for style in SEVERITY_STYLES.values() for word in style.split()}
    assert words <= {"bold", "red", "magenta"}
    text = on_terminal({"TERM": "xterm", "COLUMNS": "100"})
    assert "\x1b[" in text
    assert all(f"\x1b[{code}m" not in text for code in (33, 34, 36, 93, 94, 96))
