"""The README is short, and each file and command that it names is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpu_node.cli.commands import NAMES

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"
MOST_WORDS = 900
PAGES = [README, REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def test_it_is_short() -> None:
    """The rest is in docs/."""
    assert len(README.read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_its_first_screen_says_what_ran_on_what() -> None:
    """Before the first command, and with the page that has the tables."""
    first = README.read_text(encoding="utf-8").split("## Your servers")[0].split("## Try it")[0]
    assert "(docs/explanation/systems.md)" in first
    for absent in ("real GPU", "driver", "CentOS 7"):
        assert absent in first.split("Not yet a ")[1]


def test_what_its_commands_write_is_no_change_of_the_repository() -> None:
    """make release builds a clean checkout: a user's cluster in it is none of its files."""
    text = README.read_text(encoding="utf-8")
    assert "gpu-node init cluster " in text and "-o report.html" in text
    written = ["cluster/site.yml", "cluster/known_hosts", "report.html"]
    ignored = subprocess.run(
        ["git", "check-ignore", *written], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert ignored.stdout.split() == written


def test_it_has_one_name_for_the_inventory() -> None:
    """The one that a user types."""
    assert "site.py" not in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_leads_to_a_file(page: Path) -> None:
    """Relative to the page."""
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [each for each in links if "://" not in each and not (page.parent / each).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_exists(page: Path) -> None:
    """`gpu-node NAME` in a line or a block of code, or in backquotes."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"(?ms)^```\w*\n(.*?)^```$", text)
    plain = re.sub(r"(?ms)^```.*?^```$", "", text)
    code = [*fenced, *re.findall(r"`([^`]+)`", plain), *re.findall(r"(?m)^    (.+)$", plain)]
    named = {name for each in code for name in re.findall(r"gpu-node ([a-z][a-z-]+)\b", each)}
    assert named <= {*NAMES}, named
