"""The workspace as a node lists it, really: kinds of file, patterns, and thousands of them."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.request import CONTROLLER, Copied, ProbeRequest
from gpu_node.facts.workspace import state as workspace
from gpu_node.facts.workspace.source import own_tree, with_source, with_sources
from gpu_node.facts.workspace.state import (
    PARTIAL,
    Tree,
    listing,
    parse,
    parse_directories,
    parse_rsync,
    sections,
)
from tests.drift import states
from tests.shells import ask, busybox_machine

TIME = 1_712_044_800  # 2024-04-02 08:00:00 UTC
NAMES = (
    "train.py",
    "two words.txt",
    "über.py",
    "a -> b",
    "cache/old",
    "lib/x.pyc",
    "lib/new\nline",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with odd names, what is excluded, and what is never copied."""
    folder = tmp_path / "ws"
    for name in (*NAMES, f"lib/{PARTIAL}/big.bin"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("12345")
        os.utime(folder / name, (TIME, TIME))
    (folder / "link").symlink_to("train.py")
    os.mkfifo(folder / "pipe")
    return folder


def copied(folder: Path, *excludes: str, source: str = "a100-01") -> Copied:
    """The folder as the workspace of an inventory."""
    return Copied(str(folder), str(folder), source, excludes)


def tree(folder: Path, shell: str, *excludes: str, env: dict[str, str] | None = None) -> Tree:
    """What a node's probe says of a folder."""
    asked = sections(ProbeRequest(workspace=copied(folder, *excludes)))
    readings = ask(shell, asked, env)
    state = parse(readings)
    assert readings.unread == []
    found = state.trees[str(folder)]
    assert found is not None
    return found


def test_what_is_listed(folder: Path, shell: str) -> None:
    """Files by size and time, links by target, folders by mode; the patterns are rsync's own."""
    found = tree(folder, shell, "cache/*", "*.pyc")
    file = "- rw-r--r-- 5 2024/04/02 08:00:00"
    assert found.entries == {
        "cache": "d rwxr-xr-x",
        "lib": "d rwxr-xr-x",
        "lib/new\\#012line": file,
        "train.py": file,
        "two words.txt": file,
        "a -> b": file,
        "\\#303\\#274ber.py": file,
        "link": "l train.py",
        "pipe": "p",
    }
    assert (found.exists, found.files, found.bytes) == (True, 5, 25)


def test_a_folder_that_is_not_there(tmp_path: Path, shell: str) -> None:
    """Absent is an answer, and nothing is counted."""
    assert tree(tmp_path / "none", shell) == Tree(exists=False)


def test_a_machine_without_rsync(folder: Path, tmp_path: Path) -> None:
    """The folder exists, and cannot be listed."""
    env = busybox_machine(tmp_path / "busybox")
    assert tree(folder, "busybox", env=env) == Tree(exists=True)
    assert parse(ask("busybox", sections(ProbeRequest()), env)).rsync == ""


def test_the_controller_lists_as_a_node_does(folder: Path) -> None:
    """One digest on both sides; what differs between them is a file, and no way of listing."""
    wanted = copied(folder, "*.pyc", source=CONTROLLER)
    assert own_tree(wanted) == tree(folder, "dash", "*.pyc")
    found = with_source(states.state(), wanted).workspace
    assert found.source == own_tree(wanted) and found.source_rsync
    assert with_source(states.state(), copied(folder)) == states.state()


def test_each_source_of_a_list(folder: Path, tmp_path: Path) -> None:
    """One that is missing is not another one's tree, and a node's are not the controller's."""
    there = copied(folder, source=CONTROLLER)
    missing = Copied("/data/models", str(tmp_path / "none"), CONTROLLER)
    found = with_sources(states.state(), (missing, there, copied(folder))).workspace
    assert found.sources == {missing.origin: Tree(exists=False), there.origin: own_tree(there)}
    assert with_sources(states.state(), (copied(folder),)) == states.state()


def test_a_list_of_directories(folder: Path, tmp_path: Path, shell: str) -> None:
    """Each is listed with its own patterns, and the room for each is known."""
    none = str(tmp_path / "none" / "below")
    request = ProbeRequest(
        workspace=copied(folder, "*.pyc"), workspaces=(Copied(none, none, "a100-01"),)
    )
    readings = ask(shell, sections(request))
    state = parse(readings)
    assert readings.unread == []
    assert state.trees == {str(folder): tree(folder, shell, "*.pyc"), none: Tree(exists=False)}
    assert state.room is not None and set(state.room) == {str(folder), none}
    assert all(free > 0 for free in state.room.values())


def test_a_change_is_seen(folder: Path) -> None:
    """A mode, a second, a byte, a target."""
    digests = {tree(folder, "dash").digest}
    (folder / "train.py").chmod(0o755)
    digests.add(tree(folder, "dash").digest)
    os.utime(folder / "train.py", (TIME, TIME + 1))
    digests.add(tree(folder, "dash").digest)
    (folder / "link").unlink()
    (folder / "link").symlink_to("elsewhere")
    digests.add(tree(folder, "dash").digest)
    assert len(digests) == 4


def test_directories(folder: Path, tmp_path: Path, shell: str) -> None:
    """What is there, what is none, and what is missing."""
    folder.chmod(0o2770)
    paths = [str(folder), str(folder / "train.py"), str(tmp_path / "none")]
    readings = ask(shell, sections(ProbeRequest(directories=paths)))
    found = parse(readings).directories
    assert found is not None and list(found) == paths
    there, file, missing = found.values()
    assert (there.mode, there.owner, there.is_directory) == ("2770", folder.owner(), True)
    assert (file.exists, file.is_directory) == (True, False)
    assert (missing.exists, missing.problem) == (False, "")


def test_a_home_and_what_is_above_it(shell: str) -> None:
    """The account is known; root is one that can log in."""
    readings = ask(shell, sections(ProbeRequest(directories=["/root", "/root/", "/", "/etc"])))
    found = parse(readings).directories
    assert found is not None
    assert [(each.home, bool(each.within)) for each in found.values()] == [
        ("root", False),
        ("root", False),
        ("", True),
        ("", False),
    ]


def test_a_home_that_a_directory_service_knows(folder: Path, shell: str) -> None:
    """It may list no account, and has that of the owner."""
    service = f"getent() {{ [ $# -lt 2 ] || echo 'far:x:5000:5000::{folder}:/bin/bash'; }}\n"
    rsync, section = sections(ProbeRequest(directories=[str(folder)]))
    known = replace(section, command=service + section.command)
    found = parse(ask(shell, [rsync, known])).directories
    assert found is not None and [each.home for each in found.values()] == ["far"]


def test_a_directory_that_may_not_be_seen() -> None:
    """It does not count as missing."""
    (found,) = parse_directories("/d\t? stat: cannot stat '/d': Permission denied").values()
    assert found.problem == "stat: cannot stat '/d': Permission denied"


@pytest.fixture(scope="module")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 20,000 files."""
    folder = tmp_path_factory.mktemp("many")
    for part in range(100):
        path = folder / f"part-{part:02}"
        path.mkdir()
        for number in range(200):
            os.mknod(path / f"shard-{number:05}.jsonl")
    return folder


def test_thousands_of_files(many_files: Path, shell: str) -> None:
    """20,000 of them take less than two seconds of processor time and half a megabyte."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = tree(many_files, shell)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
    assert found.files == 20_000 and len(found.packed) < 500_000


def test_a_tab_forges_no_entry(tmp_path: Path) -> None:
    """The target of a link is a user's to choose."""
    (tmp_path / "a\t- rwx many 2026").symlink_to("b\t- rw- x")
    words = [*listing([]), f"{tmp_path}/"]
    listed = subprocess.run(words, capture_output=True, text=True).stdout
    assert workspace.tree(f"{listed}end 0").entries == {"a\t- rwx many 2026": "l b - rw- x"}


def test_setuid_is_not_compared() -> None:
    """A copy does not have it."""
    line = "-rwsr-Sr-x 5 2026/11/22 20:48:29 a\nend 0"
    assert workspace.tree(line).entries == {"a": "- rwxr--r-x 5 2026/11/22 20:48:29"}


@pytest.mark.parametrize("version", ["9" * 5000, "3.1.2.\u0663", "3.\x1b[2J"])
def test_a_version_that_is_none(version: str) -> None:
    """It decides on options of rsync, and is shown."""
    with suppress(Unreadable):
        assert re.fullmatch(r"[\w.]{1,40}", parse_rsync(f"rsync version {version}"), re.ASCII)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's that everyone may enter."""
    place = Path(mkdtemp(prefix="gpu-node-trees-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_root_lists_as_the_owner(place: Path, shell: str) -> None:
    """A user who links the workspace to what root alone may see learns nothing of it."""
    (place / "closed").mkdir(mode=0o700)
    (place / "closed" / "secret-name").write_text("")
    home = place / "home"
    (home / "ws").mkdir(parents=True)
    (home / "ws" / "train.py").write_text("")
    (home / "link").symlink_to(place / "closed")
    for path in (home, home / "ws", home / "ws" / "train.py", home / "link"):
        os.chown(path, 1, 1, follow_symlinks=False)
    assert set(tree(home / "ws", shell).entries) == {"train.py"}
    readings = ask(shell, sections(ProbeRequest(workspace=copied(home / "link"))))
    state = parse(readings)
    assert state.trees[str(home / "link")] is None
    (unread,) = readings.unread
    assert "rsync ended with" in unread.reason
