"""The generated pages of the reference are those of the code as it is now."""

from __future__ import annotations

from types import ModuleType

import pytest

from docs import causes, commands
from gpu_node.cli.commands import NAMES
from gpu_node.diagnose import cause


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


def test_each_cause_is_there() -> None:
    """But consequences, which are never an answer."""
    for each in cause.causes().values():
        is_there = f"\n### {each.name}\n" in causes.page()
        assert is_there is (each.level != "consequence"), each.name
