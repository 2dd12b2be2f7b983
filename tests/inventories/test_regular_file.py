"""Files are opened for reading only where they are regular ones."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpu_node.inventories import regular_file


def test_a_device_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watchdog reboots its machine once it is opened, and a link may lead there."""
    link = tmp_path / "rank0.log"
    link.symlink_to("/dev/null")
    read: list[int] = []
    opening = os.open

    def opened(name: str | Path, flags: int, dir_fd: int | None = None) -> int:
        descriptor = opening(name, flags, dir_fd=dir_fd)
        if not flags & os.O_PATH:
            read.append(os.fstat(descriptor).st_mode)
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(OSError, match="is a device, not a file"):
        regular_file.opened(link)
    link.unlink()
    link.write_text("step 1\n")
    with regular_file.opened(link) as file:
        assert file.read() == b"step 1\n"
    assert list(map(stat.S_ISREG, read)) == [True]


def test_a_link_that_is_not_followed(tmp_path: Path) -> None:
    """It is refused, and by a name in a folder as well."""
    (tmp_path / "a").write_text("")
    (tmp_path / "b").symlink_to("a")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        regular_file.opened("a", folder, follow=False).close()
        with pytest.raises(OSError, match="symbolic link"):
            regular_file.opened("b", folder, follow=False)
    finally:
        os.close(folder)


def test_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read, and a folder is an error."""
    (tmp_path / "a").write_text("x")
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    with regular_file.opened(tmp_path / "a") as file:
        assert file.read() == b"x"
    with pytest.raises(IsADirectoryError):
        regular_file.opened(tmp_path)
