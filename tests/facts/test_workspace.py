"""The workspace as a node lists it, really: kinds of file, patterns, and thousands of them."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from facts.controller import own_tree, with_source
from facts.named import CONTROLLER, Copied, Named
from facts.workspace import PARTIAL, Tree, parse, parse_directories, sections
from tests.drift import states
from tests.shells import SHELLS, ask, busybox_machine

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
    """A workspace with odd names, what is left out of it, and what nobody copies."""
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
    asked = sections(Named(workspace=copied(folder, *excludes)))
    readings = ask(shell, asked, env)
    state = parse(readings)
    assert readings.unread == []
    found = state.trees[str(folder)]
    assert found is not None
    return found


@pytest.mark.parametrize("shell", SHELLS)
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


@pytest.mark.parametrize("shell", SHELLS)
def test_a_folder_that_is_not_there(tmp_path: Path, shell: str) -> None:
    """Absent is an answer, and nothing is counted."""
    assert tree(tmp_path / "none", shell) == Tree(exists=False)


def test_a_machine_without_rsync(folder: Path, tmp_path: Path) -> None:
    """The folder is there, and nobody can list it."""
    env = busybox_machine(tmp_path / "busybox")
    assert tree(folder, "busybox", env=env) == Tree(exists=True)
    assert parse(ask("busybox", sections(Named()), env)).rsync == ""


def test_the_controller_lists_as_a_node_does(folder: Path) -> None:
    """One digest on both sides; what differs between them is a file, and no way of listing."""
    wanted = copied(folder, "*.pyc", source=CONTROLLER)
    assert own_tree(wanted) == tree(folder, "dash", "*.pyc")
    found = with_source(states.found(), wanted).workspace
    assert found.source == own_tree(wanted) and found.source_rsync
    assert with_source(states.found(), copied(folder)) == states.found()


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


@pytest.mark.parametrize("shell", SHELLS)
def test_directories(folder: Path, tmp_path: Path, shell: str) -> None:
    """What is there, what is none, and what is missing."""
    folder.chmod(0o2770)
    paths = [str(folder), str(folder / "train.py"), str(tmp_path / "none")]
    readings = ask(shell, sections(Named(directories=paths)))
    found = parse(readings).directories
    assert found is not None and list(found) == paths
    there, file, missing = found.values()
    assert (there.mode, there.owner, there.is_directory) == ("2770", folder.owner(), True)
    assert (file.exists, file.is_directory) == (True, False)
    assert (missing.exists, missing.problem) == (False, "")


def test_a_directory_that_may_not_be_seen() -> None:
    """Nobody says that it is missing."""
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


@pytest.mark.parametrize("shell", SHELLS)
def test_thousands_of_files(many_files: Path, shell: str) -> None:
    """20,000 of them take less than two seconds of processor time and half a megabyte."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = tree(many_files, shell)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
    assert found.files == 20_000 and len(found.packed) < 500_000
