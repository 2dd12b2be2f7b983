"""Every script that reaches a node parses in bash 4.2, the shell of CentOS 7, as far as `case`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.case_patterns import Found, found
from tests.facts.test_probe_syntax import PIECES

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("deploy", "facts", "inventories", "onboarding", "verify")
_CASE = re.compile(r"\bcase\s.*\sin\s.*\besac\b", re.DOTALL)


def _text(node: ast.expr) -> str | None:
    """Return the text of a string expression, with a word where a value is put in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) or "value" for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None and right is None else (left or "value") + (right or "value")
    return None


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each string of a module as it is put together in one expression, with its line."""
    text = _text(node) if isinstance(node, ast.expr) else None
    if isinstance(node, ast.expr) and text is not None:
        yield node.lineno, text
        return
    for child in ast.iter_child_nodes(node):
        yield from _strings(child)


def _scripts() -> Iterator[tuple[str, str]]:
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*")):
            name = str(path.relative_to(REPOSITORY))
            if path.suffix == ".py":
                for line, text in _strings(ast.parse(path.read_text())):
                    if _CASE.search(text):
                        yield f"{name}:{line}", text
            elif path.is_file() and "__pycache__" not in name:
                text = path.read_text(errors="replace")
                if path.suffix == ".sh" or _CASE.search(text):
                    yield name, text


SCRIPTS = {**dict(_scripts()), **PIECES}


def test_every_script_is_looked_at() -> None:
    """Files, strings of modules, and the probe as it is sent."""
    module = ast.parse("import os\nX = f'case {os.name} in a) ;; ' + 'esac'")
    assert list(_strings(module)) == [(2, "case value in a) ;; esac")]
    for room, least in {"deploy": 40, "facts": 70}.items():
        files = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / room).rglob("*.sh")}
        assert len(files) > least and files <= set(SCRIPTS)
    assert "the whole probe" in SCRIPTS


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("v=$(case $x in a) echo ;; esac)", [1]),
        ("v=$(\n  case $x in\n    a | b) echo ;;\n    *) ;;\n  esac\n)", [3, 4]),
        ('echo "is $(case $x in a) echo ;; esac)"', [1]),
        ("v=$(a | while read -r x; do\n  case ${x#*:} in *') '*) b ;; esac\ndone)", [2]),
        ("v=$(if a; then case $x in a) ;; esac; fi)", [1]),
        ("v=$(f() { case $1 in a) ;; esac; }; f)", [1]),
        ("v=$( (case $x in a) ;; esac) )", [1]),
        ("v=$(case $x in (a) ;; b) ;; esac)", [1]),
        ("v=$(case $x in (a) case $y in b) ;; esac ;; esac)", [1]),
        ("v=$(# it's\ncase $x in a) ;; esac)", [2]),
        ("v=${x:-$(case $x in a) ;; esac)}", [1]),
        ("v=$(($(case $x in a) echo 1 ;; esac) + 1))", [1]),
        ("v=`a $(case $x in a) ;; esac)`", [1]),
        ("cat <<E\n$(case $x in a) ;; esac)\nE", [2]),
        ("v=$(cat <<'E'; case $x in a) ;; esac)\n$(\nE", [1]),
        ("v=$(cat <<'E'\n') $(\nE\ncase $x in a) ;; esac)", [4]),
        ("a <(case $x in a) ;; esac)", [1]),
        ("case $(case $x in a) ;; esac) in b) ;; esac", [1]),
        ("case $x in a) v=$(case $x in b) ;; esac) ;; esac", [1]),
        ("case $x in $(a)) ;; esac", []),
        ("case $x in a) ;; *) v=$(b) ;; esac; c", []),
        ("(case $x in a) ;; esac)", []),
        ("is() { case $1 in a) return 0 ;; esac; return 1; }; v=$(is)", []),
        ("v=$(case $x in (a | b) echo ;; (*) ;; esac)", []),
        ("v=$(case $x in\n (a) b ;; # it's $(\n esac)", []),
        ("sh -c 'v=$(case $x in a) ;; esac)'", []),
        ("# v=$(case $x in a) ;; esac)\na", []),
        ("v=$(a # case $x in a) ;; esac\n)", []),
        ("cat <<'E'\n$(case $x in a) ;; esac)\nE", []),
        ("cat <<-\\E\n\t$(case $x in a) ;; esac)\n\tE\na", []),
        ("v=`case $x in a) ;; esac`", []),
        ("v=$(echo case $x in a)", []),
        ("v=$(echo 'case $x in a) ;; esac')", []),
        ("v=$(echo \\$\\(case in a)", []),
        ("v=$(a $((x << (y + 1))) '(' \"(\" \\( ${x#*(} ${x%\"'\"*} $'\\'(')", []),
        ('v="it\'s ${x:-don\'t} $(a "b $(c)")"', []),
    ],
)
def test_which_patterns_are_found(script: str, lines: list[int]) -> None:
    """Each is found on its line, and what only looks like one is not."""
    assert [each.line for each in found(script)] == lines


@pytest.mark.parametrize(
    "script", ["v=$(a", "'a", '"a', "v=${a", "`a", "a)", "a <<E", "v=$((a); b)", "a <<E\nb", "(a"]
)
def test_what_is_no_script_is_refused(script: str) -> None:
    """After a wrong end the rest would not be checked."""
    with pytest.raises(ValueError):
        found(script)


def test_what_is_reported_of_a_pattern() -> None:
    """Its line, and the pattern as it is written."""
    assert found("a\nv=$(case $x in 'b c' | d) ;; esac)") == [Found(2, "'b c' | d")]


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_case_ends_a_substitution(name: str) -> None:
    """A pattern within `$(...)` has its opening parenthesis: `(pattern)`."""
    assert found(SCRIPTS[name]) == []
