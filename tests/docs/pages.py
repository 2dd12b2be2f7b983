"""What the pages show: command lines, and blocks of a cluster file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.case_files import load

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
LINES = Path(__file__).parent / "commands.yml"
# Pages whose command lines a reader runs.
PAGES = [REPOSITORY / "README.md", DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^    (\S.*)$", re.MULTILINE)
_VARIABLES = re.compile(r"""^(?:\w+=(?:"[^"]*"|\$\([^)]*\)|\S*)\s+)+""")
# What pages call a server, and the lab's.
SUBSTITUTIONS = {f"10.0.0.{number}": f"10.168.144.{number}" for number in (4, 5, 6)}


def name(page: Path) -> str:
    """Return the path of a page in the repository."""
    return str(page.relative_to(REPOSITORY))


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return [text for kind, text in _FENCE.findall(page.read_text("utf-8")) if kind == language]


def command_lines(page: Path) -> list[str]:
    """Return the command lines of a page without their comments: of its blocks of sh.

    The README's are its indented lines.
    """
    text = "".join(blocks(page, "sh"))
    if page.name == "README.md":
        text = "\n".join(_INDENTED.findall(page.read_text("utf-8")))
    lines = (re.sub(r"\s+# .*", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


@dataclass(frozen=True)
class Line:
    """How a command line is run on the lab: `run`, expecting one of the `exit` codes, or not."""

    page: str
    line: str
    run: str
    exit: tuple[int, ...]
    before: str
    not_run: str


def known() -> Mapping[str, list[Line]]:
    """Return the lines of commands.yml, by page."""
    read: dict[str, list[Any]] = load(LINES.read_text("utf-8"))
    return {page: [_line(page, each) for each in lines] for page, lines in read.items()}


def _line(page: str, entry: Mapping[str, Any]) -> Line:
    unknown = {*entry} - {"line", "run", "exit", "before", "not_run"}
    assert not unknown, f"{page}: {unknown}"
    line, code = entry["line"], entry.get("exit", 0)
    run = entry.get("run", line)
    for written, meant in SUBSTITUTIONS.items():
        run = run.replace(written, meant)
    codes = tuple(code) if isinstance(code, list) else (code,)
    return Line(page, line, run, codes, entry.get("before", ""), entry.get("not_run", ""))


def words(line: str) -> list[str]:
    """Return the words behind gpu-node in a line, up to what the shell does; else nothing."""
    plain = re.split(r"\s*[<>|&;]", _VARIABLES.sub("", line))[0]
    found = shlex.split(plain)
    return found[1:] if found[:1] == ["gpu-node"] else []
