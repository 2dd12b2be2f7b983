"""What the tests of the scripts share: each sh in turn, and backups that stay in the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy import replacement, scripts
from tests.deploy.running import SHELLS

# Each of these runs the real pip several times, a second a run: they are a lane of `make test-slow`
# but for these cases, one for each script.
PIP = {
    "test_wheels.py": "test_both_orders[dash-wrong one last]",
    "test_packages_pip.py": "test_a_pin_is_met[dash]",
    "test_pushed.py": "test_fetched_once_and_installed_without_an_index[dash]",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the lane of pip has."""
    for item in items:
        if PIP.get(item.path.name, item.name) != item.name:
            item.add_marker(pytest.mark.pip)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Each kind of sh that a node may have."""
    return str(request.param)


@pytest.fixture
def backups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this run's backups, inside the test's own."""
    folder = tmp_path / "backups" / "20260101T000000Z"
    monkeypatch.setattr(replacement, "backups", lambda: str(folder))
    return folder


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that two runs on one node would both lock, inside the test's own folder."""
    file = tmp_path / "gpu-node.lock"
    monkeypatch.setattr(scripts, "LOCK", str(file))
    return file
