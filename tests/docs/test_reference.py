"""The generated pages of the reference are those of the code as it is now."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from docs import causes, commands
from gpu_node.cli.commands import NAMES
from gpu_node.diagnose import cause
from tests.docs.pages import DOCS, REPOSITORY, name


@pytest.mark.parametrize("writer", [commands, causes], ids=lambda each: each.PAGE.stem)
def test_the_page_is_current(writer: ModuleType) -> None:
    """`python docs/NAME.py` writes it again."""
    is_current = writer.PAGE.read_text(encoding="utf-8") == writer.page()
    assert is_current, f"{writer.PAGE} is out of date: run python docs/{writer.PAGE.stem}.py"


def test_each_command_has_its_options_and_exit_codes() -> None:
    """A command without exit codes in its help only prints, or is the lab."""
    sections = dict(each.split("\n", 1) for each in commands.page().split("\n## gpu-node ")[1:])
    assert [*sections] == [*NAMES]
    without = [name for name, text in sections.items() if "Exit status:" not in text]
    assert without == ["explain", "lab", "rules"]


# What a reader looks for, and where it leads: by the words of the first page, and by search, which
# has the words of each page.
WORDS = {
    "off-until": ("ignore", "mute", "disable", "switch off"),
    "share": ("share", "send", "email", "anonymous"),
    "timer": ("email",),
    "install": ("pipx", "uv", "wheel"),
}


@pytest.mark.parametrize("page", WORDS)
def test_words_lead_to_a_page(page: str) -> None:
    """Each is in a row of the first page that links to it, and on the page itself."""
    text = (DOCS / "how-to" / f"{page}.md").read_text("utf-8").lower()
    first = (DOCS / "index.md").read_text("utf-8")
    rows = [row for row in first.split("\n") if row.startswith("|") and f"how-to/{page}.md" in row]
    for word in WORDS[page]:
        assert word in text
        assert any(word in row.split("|")[1] for row in rows), word


PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
MADE = {"causes.md", "commands.md", "diagnose.md", "rules.md"}


@pytest.mark.parametrize("page", [each for each in PAGES if each.name not in MADE], ids=name)
def test_exit_codes_are_in_one_table(page: Path) -> None:
    """A page that names one links to it."""
    text = page.read_text("utf-8")
    if re.search(r"(?i)\bexit (?:code|status)|\bends? with [012]\b", text):
        assert "commands.md#exit-codes)" in text


def test_the_table_has_each_command() -> None:
    """With the codes of its help."""
    table = commands.page().split("## Exit codes")[1].split("\n## ")[0]
    assert re.findall(r"\| \[([\w-]+)\]", table) == [*NAMES]
    assert "| 0 nothing differs; 2 drift; 1 cannot find out (has precedence over 2) |" in table


def test_each_cause_is_there() -> None:
    """But consequences, which are never an answer."""
    for each in cause.causes().values():
        is_there = f"\n### {each.name}\n" in causes.page()
        assert is_there is (each.level != "consequence"), each.name
