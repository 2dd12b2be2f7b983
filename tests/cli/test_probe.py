"""Scripts that cannot be written: the error has the name of the script."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

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
