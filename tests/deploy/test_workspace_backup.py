"""What a copy of the workspace deletes or overwrites is limited, kept, and spared under a job."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.workspace import rsync as copying
from gpu_node.deploy.workspace.rsync import Removal
from tests.deploy.copies import RUN, Wire, listed, sent
from tests.node_scripts import Ended, environment, run, run_apart, tree
from tests.shells import SHELLS


def test_what_goes_is_kept(folders: tuple[Path, Path], wire: Path) -> None:
    """Deleted and overwritten files, and folders, are in the backup with their content."""
    source, target = folders
    (target / "old" / "deep").mkdir(parents=True)
    (target / "old" / "deep" / "net.py").write_text("lost")
    backup = target.parent / ".target.gpu-node-backup" / RUN
    assert sent(source, target, Removal(most=4, backup=str(backup)))
    assert listed(source) == listed(target)
    assert tree(backup) == {
        "own.log": b"mine",
        "lib/two words.py": b"other",
        "old/deep/net.py": b"lost",
    }


def test_more_to_delete_than_was_reported(
    folders: tuple[Path, Path], wire: Path, caplog: Any
) -> None:
    """A file that appeared meanwhile stops the deletion; all is sent by then."""
    source, target = folders
    (target / "late.log").write_text("late")
    assert not sent(source, target, Removal(most=1))
    assert (target / "lib" / "two words.py").read_text() == "new"
    assert len([path for path in target.iterdir() if path.suffix == ".log"]) == 1
    assert "rsync would delete more than the report lists" in caplog.text


def test_a_file_in_the_place_of_a_folder(folders: tuple[Path, Path], wire: Path) -> None:
    """The folder is deleted before anything is sent."""
    source, target = folders
    (target / "link").mkdir()
    (target / "link" / "a").write_text("mine")
    backup = target.parent / "backup" / RUN
    assert sent(source, target, Removal(most=3, backup=str(backup), at_once=True))
    assert os.readlink(target / "link") == "lib"
    assert tree(backup).keys() == {"own.log", "lib/two words.py", "link/a"}


@pytest.mark.parametrize("at_once", [False, True])
def test_a_job_that_started_meanwhile(
    folders: tuple[Path, Path],
    wire: Path,
    caplog: Any,
    monkeypatch: pytest.MonkeyPatch,
    at_once: bool,
) -> None:
    """It is looked for right before anything is deleted: after all is sent, or before."""
    source, target = folders
    before: list[str] = []

    def run(command: StringCommand, *_: object, **__: object) -> tuple[bool, Any]:
        before.append((target / "lib" / "two words.py").read_text())
        assert "in_use" in command.get_raw_value() and "allow=no" in command.get_raw_value()
        return False, SimpleNamespace(stderr="gpu-node: in use by pid 7 (train: python train.py)")

    connector = SimpleNamespace(run_shell_command=run)
    monkeypatch.setattr(Wire, "connector", connector, raising=False)
    monkeypatch.setattr(copying, "of_operation", lambda *_: {})
    assert not sent(source, target, Removal(most=1, allow="no", at_once=at_once))
    assert before == ["other" if at_once else "new"]
    assert (target / "own.log").read_text() == "mine"
    assert "nothing was deleted: gpu-node: in use by pid 7 (train: python" in caplog.text
    assert ("sent, and nothing" in caplog.text) != at_once


def test_no_backup_on_another_file_system(tmp_path: Path, shell: str) -> None:
    """rsync would copy there what it is to rename: refused, and nothing is left."""
    path, backup = f"{tmp_path}/ws", f"{tmp_path}/.ws.gpu-node-backup/{RUN}"
    asked = script("workspace", path=path, owner="", allow="yes", backup=backup)
    before = f"mkdir {path} && mount -t tmpfs tmpfs {path}"
    done = run_apart(asked, shell, before, [f"[ ! -e {tmp_path}/.ws.gpu-node-backup ]"])
    assert done.code == 1 and "is on another file system than" in done.err


def test_no_backup_behind_a_link(tmp_path: Path, shell: str) -> None:
    """A user who may write beside the workspace could lead it elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".ws.gpu-node-backup").symlink_to("elsewhere")
    folder = f"{tmp_path}/.ws.gpu-node-backup"
    asked = {"path": f"{tmp_path}/ws", "owner": "", "allow": "yes", "backup": f"{folder}/{RUN}"}
    done = run(script("workspace", **asked), shell)
    assert done.code == 1 and "is a link" in done.err
    (tmp_path / "elsewhere" / RUN).mkdir()
    asked = {"folder": folder, "backup": f"{folder}/x", "keep": "0"}
    assert run(script("workspace_backups", **asked), shell).code == 0
    assert (tmp_path / "elsewhere" / RUN).is_dir()


@pytest.mark.parametrize("is_used", [True, False])
def test_the_newest_backups_stay(tmp_path: Path, shell: str, is_used: bool) -> None:
    """So many of them, this run's among them where anything is in it; others' files stay."""
    names = [f"2026112{day}T204829Z-0a1b2c" for day in range(5)]
    folder = tmp_path / ".ws.gpu-node-backup"
    for name in names:
        (folder / name / "lib").mkdir(parents=True)
        (folder / name / "lib" / "two words.py").write_text("old")
    mine = folder / "20261125T000000Z-ffffff"
    mine.mkdir()
    if is_used:
        (mine / "a.py").write_text("old")
    (folder / "notes of zhang").mkdir()
    asked = {"folder": str(folder), "backup": str(mine), "keep": "2"}
    done = run(script("workspace_backups", **asked), shell)
    assert (done.code, done.err) == (0, "")
    assert done.out == (f"kept {mine}\n" if is_used else "")
    kept = [names[-1], mine.name] if is_used else names[-2:]
    assert {path.name for path in folder.iterdir()} == {*kept, "notes of zhang"}


def test_a_folder_of_backups_that_is_empty(tmp_path: Path, shell: str) -> None:
    """Nothing was deleted or overwritten after all: nothing is left beside the workspace."""
    folder = tmp_path / ".ws.gpu-node-backup"
    (folder / RUN).mkdir(parents=True)
    asked = {"folder": str(folder), "backup": f"{folder}/{RUN}", "keep": "3"}
    assert run(script("workspace_backups", **asked), shell) == Ended(0, "", "")
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
def test_where_a_server_keeps_root_out(shell: str) -> None:
    """The owner makes workspace and backup there, and removes what is old."""
    names = [f"2026112{day}T204829Z-0a1b2c" for day in range(3)]
    top = Path("/var/tmp") / f"gpu-node-export-{os.getpid()}-{shell}"
    top.mkdir(mode=0o755)
    shutil.chown(top, "daemon", "daemon")
    folder = top / ".ws.gpu-node-backup"
    try:
        asked = {"path": f"{top}/ws", "owner": "daemon", "allow": "yes"}
        for name in names:
            made = script("workspace", **asked, backup=f"{folder}/{name}")
            assert _squashed(made, shell) == Ended(0, "", "")
            (folder / name / "a.py").touch()
        assert [path.owner() for path in (top / "ws", folder, folder / name)] == ["daemon"] * 3
        assert folder.stat().st_mode & 0o777 == 0o700
        tidy = {"folder": str(folder), "backup": f"{folder}/{name}", "keep": "1"}
        assert _squashed(script("workspace_backups", **tidy), shell).code == 0
        assert [path.name for path in folder.iterdir()] == [name]
    finally:
        shutil.rmtree(top)


def _squashed(command: StringCommand, shell: str) -> Ended:
    """Run a command as a root that may do no more with files than their modes say."""
    without = [
        shutil.which("setpriv") or "",
        "--bounding-set=-dac_override,-dac_read_search,-chown,-fowner",
    ]
    argv = [*without, *SHELLS[shell], "-c", command.get_raw_value()]
    done = subprocess.run(argv, env=environment(shell), capture_output=True, text=True)
    return Ended(done.returncode, done.stdout, done.stderr)


def test_no_place_for_a_backup(tmp_path: Path, shell: str) -> None:
    """Nothing is copied without one, and the message names the ways on."""
    (tmp_path / ".ws.gpu-node-backup").write_text("a file of a user")
    asked = {"path": f"{tmp_path}/ws", "owner": "", "allow": "yes"}
    done = run(script("workspace", **asked, backup=f"{tmp_path}/.ws.gpu-node-backup/{RUN}"), shell)
    assert done.code == 1
    assert "no backup, so nothing was deleted or overwritten" in done.err
    assert "workspace: {backup: {keep: 0}}" in done.err
