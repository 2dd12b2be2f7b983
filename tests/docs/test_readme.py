"""The README is short, and each file and command that it names is there."""

from __future__ import annotations

import re
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
