"""The last line of a report can be typed as it stands, wherever the report was asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu_node.cli.drift import drift
from tests.cli.answering import gathered
from tests.cli.running import REPOSITORY


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that answers, and something to repair on it."""
    monkeypatch.setattr("gpu_node.cli.asking.gather", gathered())


def last_line(inventory: str) -> str:
    """Return how the report of an inventory ends."""
    return CliRunner(env={"COLUMNS": "300"}).invoke(drift, [inventory]).output.splitlines()[-1]


@pytest.mark.parametrize(
    ("folder", "inventory", "line"),
    [
        (".", "inventories/lab.py", "repair: pyinfra inventories/lab.py deploy/gpu_node.py"),
        ("inventories", "lab.py", "repair: pyinfra lab.py ../deploy/gpu_node.py"),
        ("tests/cli", "../../inventories/lab.py",
         "repair: pyinfra ../../inventories/lab.py ../../deploy/gpu_node.py"),
    ],
)  # fmt: skip
def test_in_the_repository(
    monkeypatch: pytest.MonkeyPatch, folder: str, inventory: str, line: str
) -> None:
    """Both paths are those from the folder in which the user is."""
    monkeypatch.chdir(REPOSITORY / folder)
    assert last_line(inventory) == line


def test_anywhere_else(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The deploy is the one that is installed with the command."""
    monkeypatch.chdir(folder)
    *_, path = last_line("site.py").split()
    assert not os.path.isabs(path)
    assert Path(path).resolve() == REPOSITORY / "deploy" / "gpu_node.py"


def test_beside_a_deploy_of_ones_own(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A copy of the repository is used where it is."""
    monkeypatch.chdir(folder)
    (folder / "deploy").mkdir()
    (folder / "deploy" / "gpu_node.py").touch()
    assert last_line("site.py") == "repair: pyinfra site.py deploy/gpu_node.py"


def test_a_cluster_file(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """pyinfra runs the .py file beside it; where there is none, the line makes it."""
    monkeypatch.chdir(folder)
    assert last_line("site.yml").startswith("repair: pyinfra site.py ")
    (folder / "site.py").unlink()
    made, _, run = last_line("site.yml").partition(" && ")
    _, copy, template, inventory = made.split()
    assert (copy, inventory) == ("cp", "site.py")
    assert Path(template).resolve() == REPOSITORY / "inventories" / "lab.py"
    assert run.startswith("pyinfra site.py ")


def test_a_name_with_a_blank(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Words are quoted as a shell wants them."""
    monkeypatch.chdir(folder)
    (folder / "my nodes.py").touch()
    assert last_line("my nodes.py").startswith("repair: pyinfra 'my nodes.py' ")
