"""Where the training user cannot write, or start a Python: as that user, in each shell."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.facts.env import state as env
from gpu_node.facts.probe.protocol import Readings, read, render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.lab.machine import as_root
from tests.second_account import NAME, UID, make_accounts, with_accounts
from tests.shells import SHELLS, as_lines

# busybox judges by modes alone, and sees no mount that is read-only.
SEE_MOUNTS = [name for name in SHELLS if name != "busybox"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every account may enter, with the user's home in it."""
    made = Path(mkdtemp(prefix="gpu-node-home-", dir="/var/tmp"))
    made.chmod(0o755)
    (made / "home").mkdir()
    make_accounts(made, made / "home")
    as_root(["chown", f"{UID}:{UID}", made / "home"])
    yield made
    as_root(["rm", "-rf", made])


def found(folder: Path, shell: str, change: str = "", user: str = NAME) -> dict[str, str]:
    """What a probe as root finds of a user's folders, after a change of the machine."""
    readings = asked(folder, shell, change, user)
    state = readings.take("env.places", env.parse_not_writable)
    assert state is not None, readings.unread
    assert readings.take("env.places", env.parse_home_places) is not None, readings.unread
    return {each.path: each.problem for each in state}


def asked(folder: Path, shell: str, change: str, user: str, *environments: Path) -> Readings:
    """What a probe as root is answered."""
    named = tuple(map(str, environments))
    request = ProbeRequest(user=user, trains_apart=user == NAME, environments=named)
    (section,) = [each for each in env.sections(request) if each.name == "env.places"]
    (folder / "script").write_text(render([section]))
    name, *options = SHELLS[shell]
    asked = " ".join([str(shutil.which(name)), *options, str(folder / "script")])
    done = as_root(with_accounts(folder, "sh", "-c", f"{change or ':'} && exec {asked}"))
    return read(as_lines(done.stdout.encode()), [section])


def test_a_home_that_is_right(folder: Path, shell: str) -> None:
    """The control."""
    assert found(folder, shell) == {}


def test_a_home_that_does_not_exist(folder: Path, shell: str) -> None:
    """useradd without -m, or a mount that is missing."""
    as_root(["rmdir", folder / "home"])
    assert found(folder, shell) == {str(folder / "home"): "missing"}


def test_what_belongs_to_root(folder: Path, shell: str) -> None:
    """A home that root has made, and a /tmp that lost its mode."""
    as_root(["chown", "0:0", folder / "home"])
    small = "mount -t tmpfs -o mode=0755 none /tmp"
    assert found(folder, shell, small) == dict.fromkeys((str(folder / "home"), "/tmp"), "closed")


@pytest.mark.parametrize("user", [NAME, "root"])
@pytest.mark.parametrize("shell", SEE_MOUNTS)
def test_a_mount_that_is_read_only(folder: Path, shell: str, user: str) -> None:
    """As after an error of the disk; root cannot write there, either."""
    change = "mount -t tmpfs none /tmp && mount -o remount,ro /tmp"
    assert found(folder, shell, change, user) == {"/tmp": "closed"}


def closed(folder: Path, shell: str, *environments: Path, user: str = NAME) -> list[str]:
    """What a probe as root finds closed to a user, below the test's folder."""
    readings = asked(folder, shell, "", user, *environments)
    state = readings.take("env.places", env.parse_closed)
    assert state is not None, readings.unread
    assert [each.environment for each in state] == [str(each) for each in environments if state]
    return [f"{each.place.removeprefix(f'{folder}/')} {each.mode} {each.owner}" for each in state]


@pytest.fixture
def environment(folder: Path) -> Path:
    """An environment of root's whose Python is a link to that of another folder."""
    made, base = folder / "root/envs/my dis", folder / "base/bin"
    torch = made / "lib/python3.11/site-packages/torch"
    for each in (torch, made / "bin", base):
        each.mkdir(parents=True)
    (base / "python3.11").write_text("#!/bin/sh\n")
    (base / "python3.11").chmod(0o755)
    (made / "bin/python3").symlink_to("python")
    (made / "bin/python").symlink_to("../../../../base/bin/python3.11")
    (torch / "__init__.py").touch()
    as_root(["chown", "-R", "0:0", folder / "root", folder / "base"])
    as_root(["chmod", "-R", "a+rX", folder / "root", folder / "base"])
    return made


TORCH = "root/envs/my dis/lib/python3.11/site-packages/torch"


@pytest.mark.parametrize(
    ("mode", "place"),
    [
        ("700", "root"),
        ("700", "root/envs/my dis/bin"),
        ("700", "base"),
        ("700", "base/bin/python3.11"),
        ("700", TORCH),
        ("600", f"{TORCH}/__init__.py"),
    ],
)
def test_an_environment_that_is_closed(
    folder: Path, environment: Path, shell: str, mode: str, place: str
) -> None:
    """The place is named: on the way, behind a link, or within; root can use it all the same."""
    as_root(["chmod", mode, folder / place])
    assert closed(folder, shell, environment) == [f"{place} {mode} root"]
    assert closed(folder, shell, environment, user="root") == []


def test_an_environment_that_is_open(folder: Path, environment: Path, shell: str) -> None:
    """The control; a folder that can be entered, and not listed, closes nothing."""
    as_root(["chmod", "711", folder / "root"])
    assert closed(folder, shell, environment) == []


def test_an_environment_that_is_missing(folder: Path, shell: str) -> None:
    """Another rule reports it; a link that leads to itself ends."""
    (folder / "round").symlink_to("round")
    assert closed(folder, shell, folder / "none", folder / "round/dis") == []
