"""What changes in a file, as lines: bounded, and without the lines around a change."""

import difflib
from collections.abc import Iterator
from itertools import takewhile
from operator import eq

from gpu_node.facts.probe.redaction import redacted
from gpu_node.inventories.plurals import few

# Of lines that are read, and of those that are compared: what a node sends decides.
_MOST_READ, _MOST_LINES = 100_000, 1000
MOST_SHOWN, LONGEST = 60, 4096


def changed_lines(path: str, now: str | None, new: str) -> Iterator[str]:
    """Yield what becomes of a file, with its lines that change; None is an absent file.

    Texts are as FileBytes reads them (Latin-1). Lines that stay are not shown: they are the
    user's, and may have a secret.
    """
    yield f"{path}: {'is made' if now is None else 'changes'}"
    texts = (now or "", new)
    if max(text.count("\n") for text in texts) > _MOST_READ:
        yield "  it has too many lines to compare here"
        return
    gone, come = (text.split("\n") for text in texts)
    # What both begin with is left out, then what both end with: difflib takes quadratic time.
    for _ in range(2):
        same = sum(takewhile(bool, map(eq, gone, come)))
        gone, come = gone[same:][::-1], come[same:][::-1]
    if max(len(gone), len(come)) > _MOST_LINES:
        yield f"  {len(gone)} lines become {len(come)} lines: too many to compare here"
        return
    # Two lines name the files; the others begin with -, + or @.
    diff = [*difflib.unified_diff(gone, come, n=0, lineterm="")][2:]
    shown = [line for line in diff if not line.startswith("@")]
    yield from (f"  {_text(line)}" for line in few(shown, MOST_SHOWN, "... ({} more lines)"))


def _text(line: str) -> str:
    """Return a line as text without its secrets: most files are UTF-8."""
    end = "" if len(line) <= LONGEST else f"... ({len(line) - LONGEST} more bytes)"
    shown = line[:LONGEST].encode("latin-1").decode("utf-8", "backslashreplace")
    return f"{redacted(shown)}{end}"
