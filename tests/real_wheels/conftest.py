"""The lane of the real wheels: only -m real_wheels runs it, and then it runs or fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_node.lab import wheels
from tests.environments import CU11, CU12

LANE = "real_wheels"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the lane out unless -m names it, whatever else -m says."""
    if LANE in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker(LANE)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with NVIDIA's two wheels, as this machine's pip gets them, and the stub torch."""
    folder = tmp_path_factory.mktemp("real")
    words = ["download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder), CU12, CU11]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    if done.returncode:
        output = done.stderr.strip().splitlines() or ["no output"]
        pytest.fail(
            f"the real wheels are not available: pip: {output[-1]}. This lane needs a package "
            "index that has them, or a folder: set PIP_INDEX_URL, or PIP_FIND_LINKS",
            pytrace=False,
        )
    wheels.torch_wheel(folder)
    return folder
