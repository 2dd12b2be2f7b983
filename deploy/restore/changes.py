"""What changes in a file, as lines: bounded, and without the lines around a change."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Callable, Iterator

from gpu_node.facts.probe.redaction import redacted

# difflib takes quadratic time, and what a node sends decides.
_MOST_LINES = 1000
_MOST_SHOWN, _LONGEST = 60, 4096
# What becomes of a file that is absent, and of one that is there.
BACK, FORTH = ("is written again", "gets its earlier content"), ("is made", "changes")


def changed_lines(
    path: str, now: str | None, new: str | None, words: tuple[str, str] = BACK
) -> Iterator[str]:
    """Yield what becomes of a file, with its lines that change; None is an absent file.

    Texts are as FileBytes reads them (Latin-1). Lines that stay are not shown: they are the
    user's, and may have a secret.
    """
    if new is None:
        yield f"{path}: is removed"
        return
    yield f"{path}: {words[now is not None]}"
    gone, come = _unlike(now or "", new)
    counts = [text.count("\n") + 1 for text in (gone, come)]
    if max(counts) > _MOST_LINES:
        yield f"  {counts[0]} lines become {counts[1]} lines: too many to compare here"
        return
    # Two lines name the files; the others begin with -, + or @.
    diff = [*difflib.unified_diff(gone.split("\n"), come.split("\n"), n=0, lineterm="")][2:]
    lines = [line for line in diff if not line.startswith("@")]
    yield from (f"  {_text(line)}" for line in lines[:_MOST_SHOWN])
    if len(lines) > _MOST_SHOWN:
        yield f"  ... ({len(lines) - _MOST_SHOWN} more lines)"


def _unlike(old: str, new: str) -> tuple[str, str]:
    """Return two texts without the lines in common at their beginning, and at their end.

    No list has all lines: millions of empty ones would take a hundred times the text.
    """
    same = _common(len(old), len(new), lambda count: old[:count] == new[:count])
    start = old.rfind("\n", 0, same) + 1
    old, new = old[start:], new[start:]
    same = _common(len(old), len(new), lambda count: old[-count:] == new[-count:])
    line_end = old.find("\n", len(old) - same)
    rest = len(old) - line_end if line_end >= 0 else 0
    return old[: len(old) - rest], new[: len(new) - rest]


def _common(one: int, other: int, is_same: Callable[[int], bool]) -> int:
    """Return how many characters two texts of these lengths have in common at one end."""
    return bisect_left(range(1, min(one, other) + 1), True, key=lambda count: not is_same(count))


def _text(line: str) -> str:
    """Return a line as text without its secrets: most files are UTF-8."""
    end = "" if len(line) <= _LONGEST else f"... ({len(line) - _LONGEST} more bytes)"
    shown = line[:_LONGEST].encode("latin-1").decode("utf-8", "backslashreplace")
    return f"{redacted(shown)}{end}"
