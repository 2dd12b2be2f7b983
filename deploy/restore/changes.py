"""What a restore changes in a file, as lines: bounded, and without the lines around a change."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

# difflib takes quadratic time, and what a node sends decides.
_MOST_LINES = 1000
_MOST_SHOWN = 60


def changed_lines(path: str, now: str | None, new: str | None) -> Iterator[str]:
    """Yield what becomes of a file, with its lines that change; None is an absent file.

    Texts are as FileBytes reads them (Latin-1). Lines that stay are not shown: they are the
    user's, and may have a secret.
    """
    if new is None:
        yield f"{path}: is removed"
        return
    yield f"{path}: {'is written again' if now is None else 'gets its earlier content'}"
    old_lines, new_lines = (_lines(text or "") for text in (now, new))
    first = _alike(old_lines, new_lines)
    last = _alike(old_lines[first:][::-1], new_lines[first:][::-1])
    gone, come = (each[first : len(each) - last] for each in (old_lines, new_lines))
    if max(len(gone), len(come)) > _MOST_LINES:
        yield f"  {len(gone)} lines become {len(come)} lines: too many to compare here"
        return
    # Two lines name the files; the others begin with -, + or @.
    diff = [*difflib.unified_diff(gone, come, n=0, lineterm="")][2:]
    lines = [line for line in diff if not line.startswith("@")]
    yield from (f"  {_text(line)}" for line in lines[:_MOST_SHOWN])
    if len(lines) > _MOST_SHOWN:
        yield f"  ... ({len(lines) - _MOST_SHOWN} more lines)"


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _alike(old: list[str], new: list[str]) -> int:
    """Return how many lines two lists have in common at their beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def _text(line: str) -> str:
    """Return a line as text: most files are UTF-8."""
    return line.encode("latin-1").decode("utf-8", "backslashreplace")
