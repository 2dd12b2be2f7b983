"""The scripts of `gpu-node probe`: who may read them, and an error has the name of the script."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from gpu_node.cli.output import save
from gpu_node.cli.probe import probe
from gpu_node.inventories import atomic_write


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system names no file for it, and for a folder without rights only the temporary one."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_write, "place", full)
    words = [str(folder / "site.py"), "-o", str(folder / "new")]
    with pytest.raises(click.ClickException) as caught:
        probe.main(words, standalone_mode=False)
    script = folder / "new" / "a100-01.sh"
    found = f"found no space left on device (cannot write {script}); allowed: a file"
    assert caught.value.message == f"--output: {found}"
    assert list((folder / "new").iterdir()) == []


def test_no_other_user_reads_what_is_written(folder: Path) -> None:
    """Answers are brought back into that folder; a file that existed keeps its mode."""
    before = os.umask(0o022)
    try:
        probe.main([str(folder / "site.py"), "-o", str(folder / "new")], standalone_mode=False)
        save(["text"], str(folder / "report"))
        (folder / "kept").touch(0o644)
        save(["text"], str(folder / "kept"))
    finally:
        os.umask(before)
    modes = {each.name: each.stat().st_mode & 0o777 for each in folder.rglob("*")}
    assert modes["new"] == 0o700
    assert {modes[name] for name in ("a100-01.sh", "nodes.tsv", "report")} == {0o600}
    assert modes["kept"] == 0o644
