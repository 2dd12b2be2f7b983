"""Host keys are verified: nothing in the tree turns that off."""

from __future__ import annotations

import subprocess
from pathlib import Path

OFF = "StrictHostKeyChecking" + "=no"


def test_no_host_key_is_taken_unseen() -> None:
    """Neither for ssh, nor for rsync or pyinfra, in any file of the repository."""
    found = subprocess.run(
        ["git", "grep", "-n", "-i", "-e", OFF, "-e", OFF.replace("=", " ")],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
    )
    assert (found.returncode, found.stdout) == (1, "")
