"""The last line of a report can be typed as it stands, wherever the report was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu_node.cli.drift import drift
from gpu_node.inventories.connection.sudo import SUDO
from tests.cli.answering import gathered


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that answers, and something to repair on it."""
    monkeypatch.setattr("gpu_node.cli.asking.gather", gathered())


@pytest.mark.parametrize(
    ("inventory", "line"),
    [
        ("site.py", "repair: gpu-node deploy site.py"),
        ("./site.py", "repair: gpu-node deploy ./site.py"),
        ("my nodes.py", "repair: gpu-node deploy 'my nodes.py'"),
        ("alone.yml", "repair: gpu-node deploy alone.yml"),
    ],
)
@pytest.mark.parametrize("words", [[], ["--full"]])
def test_it_repairs_the_same_inventory(
    monkeypatch: pytest.MonkeyPatch, folder: Path, inventory: str, line: str, words: list[str]
) -> None:
    """Words are quoted as a shell wants them; a cluster file needs no .py file."""
    monkeypatch.chdir(folder)
    (folder / inventory).touch()
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(drift, [inventory, *words]).output
    *_, last = [each for each in shown.splitlines() if each.startswith("repair: ")]
    assert last == line


def test_it_asks_for_sudos_password_again(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A password is kept by no command: where this one asked for it, the next one has to."""
    monkeypatch.chdir(folder)
    (folder / "site.py").touch()
    monkeypatch.setattr(SUDO, "_text", "s3cret pass")
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(drift, ["site.py"]).output
    assert "repair: gpu-node deploy site.py --ask-sudo-password\n" in shown
