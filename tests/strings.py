"""Lists what the product shows to a user: `python -m tests.strings [ROOM...]`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

REPOSITORY = Path(__file__).parents[1]
ROOMS = (
    *("facts", "drift", "diagnose", "deploy", "history", "inventories", "onboarding", "verify"),
    *("cli", "lab"),
)
_WORDS = re.compile(r"[A-Za-z][a-z']+[,:;.]? \(?(?:[A-Za-z{]|\d)")
# Shell, regular expressions, formats of time and options that another program is given.
_CODE = re.compile(
    r"\$[({\w]|2>|\|\||&&|\\[bdsSw]|\(\?|%[YHF]|^-|^\S+=\S|#!|; (?:then|do)\b|^/\S+ -"
)
_PROGRAMS = re.compile(
    r"^(?:apt|apt-get|awk|bash|cat|cd|chmod|command|cp|dnf|dpkg|echo|env|exec|find|for|getent|grep|if"
    r"|ls|mkdir|modprobe|mv|nvidia-smi|podman|printf|ps|rm|rpm|sed|set|sh|ssh|stat|sudo|systemctl"
    r"|tee|test|umask|while) [-/{|*]"
)
# A click command's docstring is its help.
_COMMANDS = ("command", "group")


class Shown(NamedTuple):
    """A text of the product; the placeholders of an f-string are shown as {name}."""

    file: str
    line: int
    text: str


@cache
def tree(path: Path) -> ast.Module:
    """Return a module that several tests read."""
    return ast.parse(path.read_text())


@cache
def shown(room: str) -> tuple[Shown, ...]:
    """Return the texts of a room, by file and line."""
    texts = [
        *((path, _texts(tree(path), room == "cli")) for path in (REPOSITORY / room).rglob("*.py")),
        *((path, _of_rows(path)) for path in (REPOSITORY / room).rglob("rules.yml")),
    ]
    return tuple(
        Shown(str(path.relative_to(REPOSITORY)), line, " ".join(text.split()))
        for path, several in sorted(texts, key=lambda each: each[0])
        for line, text in sorted(several)
        if _is_prose(text)
    )


def _of_rows(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of rows, each with its line."""
    for token in yaml.scan(path.read_text(), Loader=yaml.CSafeLoader):
        if isinstance(token, yaml.ScalarToken):
            yield token.start_mark.line + 1, token.value


def _is_prose(text: str) -> bool:
    return bool(_WORDS.search(text)) and not _CODE.search(text) and not _PROGRAMS.match(text)


def _texts(node: ast.AST, help_counts: bool) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.FunctionDef) and help_counts and _is_command(node):
        yield node.body[0].lineno, ast.get_docstring(node) or ""
    text = _text(node)
    if isinstance(node, ast.expr) and text is not None:
        yield node.lineno, text
        return
    for child in _children(node):
        yield from _texts(child, help_counts)


def _is_command(node: ast.FunctionDef) -> bool:
    calls = (each.func for each in node.decorator_list if isinstance(each, ast.Call))
    return any(isinstance(each, ast.Attribute) and each.attr in _COMMANDS for each in calls)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Return the parts of a node without docstrings, keys, patterns and what is compared."""
    left_out: list[ast.AST | None] = []
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Dict):
        left_out = list(node.keys)
    elif isinstance(node, ast.Compare):
        left_out = [node.left, *node.comparators]
    elif isinstance(node, ast.Subscript):
        left_out = [node.slice]
    elif isinstance(node, ast.arg | ast.AnnAssign):
        left_out = [node.annotation]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
        left_out = list(node.args)
    yield from (each for each in ast.iter_child_nodes(node) if each not in left_out)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_part, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None or right is None else left + right
    return None


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return str(_text(node))


def main() -> None:
    """Print the texts of the rooms that are named, or of all."""
    for room in sys.argv[1:] or ROOMS:
        for each in shown(room):
            print(f"{each.file}:{each.line}: {each.text}")


if __name__ == "__main__":
    main()


@cache
def constants(path: Path) -> tuple[str, ...]:
    """Return each constant of a module as text, less its docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return tuple(
        str(node.value)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and id(node) not in docstrings
    )
