"""What each lane runs: the real wheels are downloaded by their own lane, and by no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ([], False),
        (["-m", "not lab"], False),
        (["-m", "lab"], False),
        (["-m", "not real_wheels"], False),
        (["-m", "real_wheels"], True),
    ],
)
def test_the_real_wheels_are_asked_for_by_name(words: list[str], runs: bool) -> None:
    """5 is pytest's word for: there are tests, and none of them is to run."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", *words, HERE / "real_wheels"],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "::" in done.stdout) == ((0, True) if runs else (5, False)), done
