"""How pyinfra is started: without questions, and so that a dry run lists what it would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.deploy.engine.pyinfra_process import run_pyinfra

DEPLOY = """
from pyinfra.operations import files
files.file(name="Make a file", path={path!r})
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
