"""Messages and exit codes of `gpu-node lab` that need no podman."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu_node.cli.lab import lab
from gpu_node.deploy.files import downloads as controller
from gpu_node.lab import roster


def test_break_without_a_name_lists_the_catalogue() -> None:
    result = CliRunner().invoke(lab, ["break"])
    assert result.exit_code == 0
    assert "fstab-line-gone " in result.stdout


def test_break_with_an_unknown_name_says_how_to_list_the_catalogue() -> None:
    result = CliRunner().invoke(lab, ["break", "nope"])
    assert result.exit_code == 1
    assert "found 'nope' (no such fault)" in result.output
    assert "next: gpu-node lab break lists them" in result.output


def test_reset_of_an_unknown_node_lists_the_known_ones() -> None:
    result = CliRunner().invoke(lab, ["reset", "nope"])
    assert result.exit_code == 1
    assert "allowed: a100-01, v100-01, v100-02" in result.output


def test_the_readme_names_what_make_clean_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders are the defaults of the code."""
    for variable in ("GPU_NODE_LAB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    fetched = Path("~") / controller.cache().relative_to(Path.home())
    readme = " ".join((roster.REPOSITORY / "README.md").read_text(encoding="utf-8").split())
    assert f"`sudo rm -rf {roster.cache()} {fetched}`" in readme
