"""What the tests of the scripts share: each sh in turn, and backups that stay in the test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.deploy.engine import scripts
from gpu_node.deploy.files import replace as replacement
from gpu_node.facts.limits import confirmed
from tests import node_scripts

# Each of these runs the real pip several times, a second a run: they are a lane of `make test-slow`
# but for these cases, one for each script.
PIP = {
    "test_wheels.py": "test_both_orders[dash-wrong one last]",
    "test_packages_pip.py": "test_a_pin_is_met[dash]",
    "test_pushed.py": "test_fetched_once_and_installed_without_an_index[dash]",
}

# It ends by itself, should the test fail.
SLEEP = """#!/bin/sh
PATH=/usr/bin:/bin
for round in $(seq 500); do [ -e {folder}/go ] && break; sleep 0.02; done
echo "$1" >>{folder}/slept
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the lane of pip has."""
    for item in items:
        if PIP.get(item.path.name, item.name) != item.name:
            item.add_marker(pytest.mark.pip)


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


@pytest.fixture
def slept(programs: Path, tmp_path: Path) -> Path:
    """A file that the first `sleep` of a script makes: what the script waits for ends then."""
    made = tmp_path / "slept"
    programs.mkdir(exist_ok=True)
    (programs / "sleep").write_text(f'#!/bin/sh\n: >{made}\nexec /bin/sleep "$@"\n')
    (programs / "sleep").chmod(0o755)
    return made


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a `sleep` that ends when `go` is there: no test depends on a machine's load."""
    folder = tmp_path / "clock"
    folder.mkdir()
    (folder / "sleep").write_text(SLEEP.format(folder=folder))
    (folder / "sleep").chmod(0o755)
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", f"{folder}:")
    return folder


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands for ssh, and notes what it was called with."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >{tmp_path}/called\n'
        "while :; do case $1 in -[oipleF]) shift 2 ;; -*) shift ;; *) break ;; esac; done\n"
        'shift\nexec sh -c "$*"\n'  # as sshd does
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return tmp_path / "called"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A source with a cache, and a target with a file of its own and another version of one."""
    source, target = tmp_path / "source", tmp_path / "target"
    for path in (source / "lib", source / "cache", target / "cache", target / "lib"):
        path.mkdir(parents=True)
    (source / "lib" / "two words.py").write_text("new")
    (source / "cache" / "old").write_text("not wanted")
    (source / "link").symlink_to("lib")
    (target / "lib" / "two words.py").write_text("other")
    (target / "own.log").write_text("mine")
    (target / "cache" / "kept").write_text("theirs")
    return source, target


@pytest.fixture(autouse=True)
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The note of what is held, inside the test's own folder."""
    file = tmp_path / "noted" / "holds"
    monkeypatch.setattr(scripts, "NOTE", str(file))
    return file


@pytest.fixture(autouse=True)
def pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The records of changes that wait to be confirmed, inside the test's own folder.

    A test's own files may be confirmed, beside those of a node.
    """
    folder = tmp_path / "records" / "pending"
    known = confirmed.is_confirmed
    own = (str(tmp_path), "/var/tmp/gpu-node-", "/mnt/", "/tmp/gpu-node-")
    monkeypatch.setattr(confirmed, "is_confirmed", lambda path: known(path) or path.startswith(own))
    monkeypatch.setattr(replacement, "PENDING", str(folder))
    yield folder
    # A timer ends with its record.
    shutil.rmtree(folder, ignore_errors=True)
