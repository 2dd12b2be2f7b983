"""What the tests of verify's scripts share: each shell, and a name for a run."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.verify import nodes
from tests.verify.job_scripts import with_shell


@pytest.fixture
def environment(shell: str, tmp_path: Path) -> dict[str, str]:
    """An environment of each shell, in which python3 is ours."""
    return with_shell(tmp_path / "bin", shell)


@pytest.fixture
def run() -> Iterator[str]:
    """A name for a run, whose folder is removed in the end."""
    name = f"test-{secrets.token_hex(8)}"
    yield name
    subprocess.run(["rm", "-rf", nodes.folder(name)], check=True)
