"""What the tests of verify's scripts share: each shell, and a name for a run."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.verify import nodes
from tests.verify.running import SHELLS, with_shell


@pytest.fixture(params=SHELLS)
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """An environment of each shell, in which python3 is ours."""
    return with_shell(tmp_path / "bin", request.param)


@pytest.fixture
def run() -> Iterator[str]:
    """A name for a run, whose folder is removed in the end."""
    name = f"test-{secrets.token_hex(8)}"
    yield name
    subprocess.run(["rm", "-rf", nodes.folder(name)], check=True)
