"""The node itself undoes a change that no new session confirms."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from gpu_node.deploy.files.replace import confirm, replace, restore, sum_of
from gpu_node.facts.probe.file_bytes import FileContent
from tests.node_scripts import run, tree, until

ABSENT = FileContent(exists=False, text="", problem="")
OLD = FileContent(exists=True, text="old", problem="")
UNDONE = ("left", "strict", "behind", "link")
NAMES = ("left", "kept", "strict", "link", "new", "new-kept")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of files that say `old`: one with a mode of its own, one behind a link."""
    folder = tmp_path / "limits.d"
    folder.mkdir()
    for name in ("left", "kept", "strict", "behind"):
        (folder / name).write_bytes(b"old")
    (folder / "strict").chmod(0o600)
    (folder / "link").symlink_to("behind")
    return folder


def test_an_unconfirmed_change(folder: Path, backups: Path, shell: str, clock: Path) -> None:
    """Old bytes and mode come back, a new file goes, a confirmed one stays; no mark is left.

    A link is followed as the change did, and a confirmation that comes too late is refused.
    """
    for name in NAMES:
        old = ABSENT if name.startswith("new") else OLD
        assert run(replace(str(folder / name), old, "new", confirm_seconds=45), shell).code == 0
        assert (folder / name).read_bytes() == b"new"
    for name in ("kept", "new-kept"):
        assert run(confirm(str(folder / name)), shell).code == 0
    (clock / "go").touch()
    after = {"kept": b"new", "new-kept": b"new", **dict.fromkeys(UNDONE, b"old")}
    assert until(lambda: tree(folder) == after), tree(folder)
    assert until(lambda: (clock / "slept").read_text().count("1\n") >= 45 * len(UNDONE))
    assert (folder / "strict").stat().st_mode & 0o7777 == 0o600
    assert (folder / "link").is_symlink()
    late = run(confirm(str(folder / "left")), shell)
    assert (late.code, tree(folder)) == (1, after)
    assert "was undone already" in late.err


def test_the_time_is_kept(folder: Path, backups: Path, shell: str) -> None:
    """With the real sleep(1), too: the node undoes the change when the seconds are over."""
    before = tree(folder)
    assert run(replace(str(folder / "left"), OLD, "new", confirm_seconds=1), shell).code == 0
    assert until(lambda: tree(folder) == before)


def _watches(pending: Path) -> list[str]:
    """The processes that wait to undo the only change, by their pids."""
    wanted = str(pending).encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = file.read_bytes().split(b"\0")
            if b"-c" in words and any(each.startswith(wanted) for each in words):
                found.append(file.parent.name)
    return found


def test_what_waits_is_no_job(
    folder: Path, backups: Path, shell: str, pending: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A libnccl that the user's shell preloads is not in it."""
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libnccl.so.2")
    file = folder / "left"
    run(replace(str(file), OLD, "new", confirm_seconds=60), shell)
    assert until(lambda: bool(_watches(pending)))
    environs = [Path(f"/proc/{pid}/environ").read_bytes() for pid in _watches(pending)]
    assert not any(b"LD_PRELOAD" in each for each in environs)
    assert run(confirm(str(file)), shell).code == 0


@pytest.mark.parametrize("ends", ["confirmed", "put back"])
def test_no_process_waits_any_longer(
    folder: Path, backups: Path, pending: Path, shell: str, ends: str
) -> None:
    """It is root's: a report of another user would have to call each segment in doubt for it."""
    file = folder / "left"
    assert run(replace(str(file), OLD, "new", confirm_seconds=60), shell).code == 0
    assert until(lambda: bool(_watches(pending)))
    command = confirm(str(file)) if ends == "confirmed" else restore(str(file))
    assert run(command, shell).code == 0
    assert until(lambda: not _watches(pending))


def test_a_daemon_that_does_not_read(
    folder: Path, backups: Path, pending: Path, shell: str
) -> None:
    """Such as sshd beside a broken file of another program: the record stays until it has read.

    An administrator may change the restored file meanwhile: it is not replaced again.
    """
    file, followed = folder / "left", folder.parent / "followed"
    then = f"[ -e '{folder.parent}/readable' ] && echo read >>'{followed}'"
    assert run(replace(str(file), OLD, "new", confirm_seconds=60, then=then), shell).code == 0
    done = run(restore(str(file)), shell)
    assert (done.code, file.read_bytes()) == (1, b"old")
    assert "the earlier file is in place" in done.err
    assert list(pending.glob("*/undo"))
    file.write_bytes(b"users")
    (folder.parent / "readable").touch()
    assert run(restore(str(file)), shell).code == 0
    assert (file.read_bytes(), followed.read_text()) == (b"users", "read\n")
    assert not pending.exists()


def test_what_is_to_follow(folder: Path, backups: Path, shell: str, clock: Path) -> None:
    """It runs for a file that the node or a restore put back, and not for one that stays."""
    followed = folder.parent / "followed"
    then = f"\ncat '{folder}/$name' >>'{followed}'\n"
    for name in ("left", "kept"):
        then_this = then.replace("$name", name)
        command = replace(str(folder / name), OLD, "new", confirm_seconds=45, then=then_this)
        assert run(command, shell).code == 0
    assert run(confirm(str(folder / "kept")), shell).code == 0
    assert run(restore(str(folder / "left")), shell).code == 0
    assert followed.read_bytes() == b"old"
    again = folder / "strict"
    then_this = then.replace("$name", "strict")
    assert run(replace(str(again), OLD, "new", confirm_seconds=45, then=then_this), shell).code == 0
    (clock / "go").touch()
    assert until(lambda: followed.read_bytes() == b"oldold")
    assert until(lambda: (clock / "slept").read_text().count("1\n") >= 45)
    assert followed.read_bytes() == b"oldold"


def test_a_refused_change_starts_no_timer(folder: Path, backups: Path, shell: str) -> None:
    """Where the check refuses, there is nothing to undo and no mark that says so."""
    before = tree(folder)
    command = replace(str(folder / "left"), OLD, "new", check="false", confirm_seconds=60)
    assert run(command, shell).code == 1
    assert tree(folder) == before


def test_what_another_run_has_confirmed(folder: Path, backups: Path, shell: str) -> None:
    """The mark is gone and the file says what was written: that is no failure."""
    assert run(replace(str(folder / "left"), OLD, "new", confirm_seconds=60), shell).code == 0
    assert run(confirm(str(folder / "left")), shell).code == 0
    assert run(confirm(str(folder / "left"), sum_of("new")), shell).code == 0
    assert run(confirm(str(folder / "left"), sum_of("other")), shell).code == 1
