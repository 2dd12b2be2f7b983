"""Every pattern of a shell's `case` has its opening parenthesis: `(pattern)`.

Within `$(...)` bash 4.2, CentOS 7's, may take the `)` of `case $x in pattern)` for the end of the
substitution. With `(pattern)` a reader need not know where a script is put in.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("deploy", "facts", "inventories", "onboarding", "verify")
SCRIPTS = [
    path
    for room in ROOMS
    for path in sorted((REPOSITORY / room).rglob("*"))
    if path.suffix == ".sh" or (path.suffix == ".py" and "esac" in path.read_text())
]
# What may stand between patterns.
_BLANK = r"(?:\s|#[^\n]*\n)*"
# A pattern follows `case WORD in` and each `;;`.
BARE = re.compile(
    rf"^(?!\s*#).*?(?:\bcase [^\n]*? in(?=\s)|;;){_BLANK}(?!\s|#|\(|esac\b)([^\n]*)", re.MULTILINE
)


def bare(script: str) -> list[str]:
    """Return the lines of a script from each pattern on that has no opening parenthesis."""
    return [match[1] for match in re.finditer(BARE, script)]


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("v=$(case $x in a) echo ;; esac)", ["a) echo ;; esac)"]),
        ("case $x in\n  a | b) echo ;;\nesac", ["a | b) echo ;;"]),
        ("case $x in\n  # why\n  (a) b ;;\n  *) ;;\nesac", ["*) ;;"]),
        ("case $x in (a) ;; *) b ;; esac", ["*) b ;; esac"]),
        ("case $x in (a | b) ;; (*) c ;; esac", []),
        ("case $x in\n  (a) b ;; # it's\n  (*) c ;;\nesac", []),
        ("# in case x in a) is meant", []),
    ],
)
def test_what_is_found(script: str, found: list[str]) -> None:
    """The first pattern and later ones, whatever is between them."""
    assert bare(script) == found


def test_each_pattern_has_its_parenthesis() -> None:
    """In files and in the texts of modules."""
    assert {str(path): found for path in SCRIPTS if (found := bare(path.read_text()))} == {}
