"""Scripts for nodes: read from their files, with the words of Python in them, without comments."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpu_node.facts.probe import shell as loader
from gpu_node.facts.probe.shell import assigned, compact, shell

FACTS = Path(__file__).parents[2] / "facts"
PATHS = [*sorted(FACTS.rglob("*.sh")), *sorted(FACTS.rglob("*.awk"))]
MODULES = "".join(path.read_text() for path in FACTS.rglob("*.py"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of scripts in the place of `facts`."""
    monkeypatch.setattr(loader, "_FACTS", tmp_path)
    return tmp_path


def test_a_script_is_sent_without_comments_and_indents(folder: Path) -> None:
    """Its words have the values that are given; a comment behind a command stays."""
    (folder / "a.sh").write_text("# why\nif [ -e @file@ ]; then\n  # no\n\n  echo a # b\nfi\n")
    assert shell("a", file="/etc/x") == "if [ -e /etc/x ]; then\necho a # b\nfi\n"


def test_an_awk_file_is_named_with_its_suffix(folder: Path) -> None:
    """It is compacted in the same way."""
    (folder / "b.awk").write_text("# why\n{\n  print\n}\n")
    assert shell("b.awk") == "{\nprint\n}\n"


@pytest.mark.parametrize("words", [{}, {"other": 1}, {"file": 1, "other": 1}])
def test_words_and_values_match(folder: Path, words: dict[str, object]) -> None:
    """A word without a value would reach a node; a value without a word is a mistake."""
    (folder / "c.sh").write_text("echo @file@\n")
    with pytest.raises(ValueError, match=r"c\.sh has other words"):
        shell("c", **words)


def test_variables_are_quoted() -> None:
    """sh reads back what was given."""
    value = "it's $HOME `id`\n\\ \""
    done = subprocess.run(
        ["sh", "-c", assigned(given=value, number=3) + 'printf "%s/%s" "$given" "$number"'],
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{value}/3"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(FACTS)))
def test_a_file_is_sent_by_a_module(path: Path) -> None:
    """A file that no module loads would be dead."""
    name = str(path.relative_to(FACTS)).removesuffix(".sh")
    assert re.search(rf'shell\(\s*"{re.escape(name)}"', MODULES)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(FACTS)))
def test_no_text_is_lost_with_the_comments(path: Path) -> None:
    """A here-document has neither, and no comment ends a line that continues."""
    text = path.read_text()
    for _, body in re.findall(r"<<'?([A-Z]+)'?\n(.*?)^\1$", text, re.DOTALL | re.MULTILINE):
        assert not re.search(r"^[ \t#]", body, re.MULTILINE)
    assert not re.search(r"\\\n\s*#", text), "a comment after a line that continues"
    assert compact(compact(text)) == compact(text)
