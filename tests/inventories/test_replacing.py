"""replacing: a file of this machine is on the disk before it has its name."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpu_node.inventories.atomic_write import place, replace


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written to the disk and renamed, in this order."""
    calls: list[str] = []
    fsync, rename = os.fsync, Path.replace

    def logged_fsync(number: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file"
        calls.append(f"fsync {kind}")
        fsync(number)

    def logged_rename(path: Path, target: Path) -> Path:
        calls.append(f"rename to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(Path, "replace", logged_rename)
    return calls


@pytest.mark.parametrize("existed", [True, False])
def test_replace(tmp_path: Path, done: list[str], existed: bool) -> None:
    """The content first, then the name, then the folder."""
    file = tmp_path / "known_hosts"
    if existed:
        file.write_text("old")
        file.chmod(0o640)
    replace(file, b"new")
    assert done == ["fsync file", "rename to known_hosts", "fsync folder"]
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == (0o640 if existed else 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["known_hosts"]


def test_place(tmp_path: Path, done: list[str]) -> None:
    """The same for a file that another program has written."""
    (tmp_path / "part").write_text("new")
    place(tmp_path / "part", tmp_path / "whole")
    assert done == ["fsync file", "rename to whole", "fsync folder"]
    assert (tmp_path / "whole").read_text() == "new"


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays, alone."""
    file = tmp_path / "known_hosts"
    file.write_text("old")

    def fails(number: int) -> None:
        raise OSError("Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        replace(file, b"new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["known_hosts"]


def test_a_new_file_for_others(tmp_path: Path) -> None:
    """As the umask says, where the caller has nothing against it."""
    before = os.umask(0o027)
    try:
        replace(tmp_path / "report", b"", 0o666)
    finally:
        os.umask(before)
    assert (tmp_path / "report").stat().st_mode & 0o777 == 0o640
