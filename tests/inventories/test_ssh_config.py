"""What the user's ssh_config means: as ssh itself reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.inventories.connection.ssh_config import settings


@pytest.mark.parametrize("shell", ["/bin/sh", None])
def test_the_command_of_a_match_decides(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    shell: str | None,
) -> None:
    """It is a line for the shell, runs once, and says nothing; a missing $SHELL is sh."""
    monkeypatch.delenv("SHELL", raising=False)
    if shell:
        monkeypatch.setenv("SHELL", shell)
    ran = tmp_path / "ran"
    file = tmp_path / "config"
    file.write_text(
        f'Match exec "echo x >>{ran}; true"\n  User alice\nMatch exec "test -e /nope"\n  Port 7\n'
    )
    for _ in range(2):
        assert settings("n1", str(file)) == {"hostname": "n1", "user": "alice"}
    assert ran.read_text() == "x\n"
    assert capfd.readouterr() == ("", "")
