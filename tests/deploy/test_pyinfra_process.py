"""How pyinfra is started: without questions, and so that a dry run lists what it would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.deploy.engine.pyinfra_process import VARIABLE, run_pyinfra

DEPLOY = """
from pyinfra.operations import files
files.file(name="Make a file", path={path!r})
"""
KEEP = """
import os
from pathlib import Path
Path({path!r}).write_text(repr(dict(os.environ)))
"""


@pytest.mark.parametrize("dry", [True, False])
def test_a_dry_run_lists_the_operations(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], dry: bool
) -> None:
    """It changes nothing; the real run asks nothing."""
    (tmp_path / "nodes.py").write_text('nodes = ["@local"]\n')
    made = tmp_path / "made"
    (tmp_path / "work.py").write_text(DEPLOY.format(path=str(made)))
    ended = run_pyinfra(str(tmp_path / "nodes.py"), tmp_path / "work.py", ["--dry"] if dry else [])
    assert (ended.code, ended.failed, made.exists()) == (0, (), not dry)
    output = "".join(capfd.readouterr())
    assert "Make a file" in output


def test_pyinfra_does_not_get_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: it gets other variables."""
    monkeypatch.setenv(VARIABLE, "hunter2")
    monkeypatch.setenv("OTHER", "1")
    (tmp_path / "nodes.py").write_text('nodes = ["@local"]\n')
    seen = tmp_path / "seen"
    (tmp_path / "work.py").write_text(KEEP.format(path=str(seen)))
    assert run_pyinfra(str(tmp_path / "nodes.py"), tmp_path / "work.py").code == 0
    text = seen.read_text()
    assert "'OTHER': '1'" in text and VARIABLE not in text and "hunter2" not in text
