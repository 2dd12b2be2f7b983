"""package_locks.sh before the package steps: waited for, reported, and named at the end."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_node.deploy.engine import scripts
from gpu_node.deploy.engine.scripts import script
from tests.deploy.packaging import Machine
from tests.deploy.packaging import machine as machine
from tests.node_scripts import WAIT_FOR_FILE, Ended

pytestmark = pytest.mark.slow

STEPS = {
    "driver_packages": {"kernels": "9.9.9-test", "dkms": "no"},
    "program": {"program": "rsync", "packages": "rsync"},
}
# What each package manager prints where it does not wait.
SAYS = {
    "rpm": "error: can't create transaction lock on /var/lib/rpm/.rpm.lock",
    "sqlite": "error: sqlite failure: BEGIN EXCLUSIVE: database is locked",
    "yum": "Another app is currently holding the yum lock; waiting for it to exit...",
    "apt": "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 731 (apt)",
    "dpkg": "dpkg: error: dpkg frontend lock was locked by another process with pid 731",
}


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """rpm's database as the steps look for it, in the test's folder; they wait for two seconds."""
    folder = tmp_path / "rpmdb"
    folder.mkdir()
    escaped = str(folder).replace("/", r"\/")
    held = scripts.HELD.replace(r"\/var\/lib\/rpm", escaped).replace("/var/lib/dnf", str(folder))
    monkeypatch.setattr(scripts, "HELD", held)
    monkeypatch.setattr(scripts, "PATIENCE_SECONDS", 2)
    return folder


@contextmanager
def locked(path: Path, until: Path | str = "", apart: bool = False) -> Iterator[int]:
    """Another program that holds a POSIX lock of a file until there is another file; its pid.

    `apart`: of a file of that path in a tree of its own, as in a container.
    """
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX)\n"
        f"print(1, flush=True)\n{WAIT_FOR_FILE}"
    )
    words = [sys.executable, "-c", code, str(path), str(until)]
    if apart:
        hide = 'mount -t tmpfs none "${1%/*}"; shift; exec "$@"'
        words = ["unshare", "-m", "sh", "-c", hide, "sh", str(path), *words]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "1\n"
        try:
            yield other.pid
        finally:
            other.kill()


def step(machine: Machine, shell: str, name: str, manager: str = "apt-get") -> Ended:
    """Run one of the steps, where there is no rsync; it sees who holds a lock."""
    before = f"mount --bind /dev/null {shutil.which('rsync')}"
    machine = replace(machine, beside_others=True)
    return machine.run(
        script(name, manager=manager, allow_reload="yes", **STEPS[name]), shell, before
    )


@pytest.mark.parametrize("manager", ["apt-get", "yum"])
@pytest.mark.parametrize("name", STEPS)
def test_who_holds_it_is_named_at_the_end(
    machine: Machine, shell: str, database: Path, name: str, manager: str
) -> None:
    """File, pid, command and user; no package manager is called, and nothing else is blamed."""
    file = database / ".rpm.lock"
    with locked(file) as pid:
        done = step(machine, shell, name, manager)
    assert done.code == 1
    assert f"gave up after 2 s: another program uses the package database: {file}" in done.err
    assert f"held by pid {pid} (python" in done.err
    assert ") of root" in done.err and "are not available" not in done.err
    assert done.out.count(f"gpu-node: waits for {file}, held by pid {pid}") == 1
    assert machine.installs() == []


def test_it_goes_on_when_the_lock_is_free(
    machine: Machine, shell: str, database: Path, monkeypatch: pytest.MonkeyPatch, slept: Path
) -> None:
    """What waits says so, once, and then does its work."""
    monkeypatch.setattr(scripts, "PATIENCE_SECONDS", 20)
    with locked(database / "rpmdb.sqlite", until=slept):
        done = step(machine, shell, "program")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("gpu-node: waits for") == 1
    assert len(machine.installs()) == 1


def test_a_lock_in_a_container_is_another_file(
    machine: Machine, shell: str, database: Path
) -> None:
    """An image that is being built has a package database of its own, under the same path."""
    with locked(database / ".rpm.lock", apart=True):
        done = step(machine, shell, "program")
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize("message", SAYS.values(), ids=SAYS)
def test_a_lock_that_only_the_message_shows(
    machine: Machine, shell: str, database: Path, message: str
) -> None:
    """The first call fails with it, the second one works; then it fails for good."""
    program = machine.folder / "bin" / "apt-get"
    real = program.read_text()
    once = f'[ -e "{machine.folder}/seen" ] || {{ touch "{machine.folder}/seen"; echo "{message}"; '
    program.write_text(real.replace("#!/bin/sh\n", f"#!/bin/sh\n{once}exit 100; }}\n", 1))
    done = step(machine, shell, "program")
    assert (done.code, done.err, done.out) == (0, "", f"gpu-node: waits for {message}\n")
    (machine.folder / "bin" / "rsync").unlink()
    program.write_text(f'#!/bin/sh\necho "{message}"\nexit 100\n')
    done = step(machine, shell, "program")
    assert done.code == 1 and f"uses the package database: {message}; run again" in done.err


def test_a_file_that_a_killed_program_left(machine: Machine, shell: str, database: Path) -> None:
    """Another program has its pid now: no process holds the lock."""
    with subprocess.Popen(["sleep", "60"]) as other:
        (database / "rpmdb_lock.pid").write_text(str(other.pid))
        done = step(machine, shell, "program")
        other.kill()
    assert (done.code, done.out) == (0, "")
