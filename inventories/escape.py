"""One escape for every text from a node: characters that steer a terminal, or hide, are shown."""

from __future__ import annotations

import re

from gpu_node.inventories.plurals import few

# How much of one text is shown, and how many lines of one that has several.
LONGEST = 4000
MOST_LINES = 200
# The categories Cc, Cf, Cs, Zl and Zp of Unicode, and letters and marks that take no room.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff"
    "\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def visible(text: str, longest: int = LONGEST) -> str:
    r"""Return `text` with each such character as Python would write it: \x1b, \n, \u202e.

    What exceeds `longest` characters is left out, and counted.
    """
    more = len(text) - longest
    kept = _HIDDEN.sub(lambda match: _escaped(match[0]), text[:longest] if more > 0 else text)
    return f"{kept}... ({more} more characters)" if more > 0 else kept


def visible_lines(text: str, most: int = MOST_LINES, longest: int = LONGEST) -> str:
    """Return `text` made visible, with its newlines; lines beyond `most` are left out."""
    lines = few(text.split("\n"), most, "... ({} more lines)")
    return "\n".join(visible(line, longest) for line in lines)


def visible_json(text: str) -> str:
    r"""Return JSON of lines with each such character in its strings as \u escapes.

    Half a surrogate pair is a character of no encoding: it is shown as text.
    """
    return "\n".join(_HIDDEN.sub(_in_json, line) for line in text.split("\n"))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _in_json(match: re.Match[str]) -> str:
    if "\ud800" <= match[0] <= "\udfff":
        return "\\" + _escaped(match[0])
    pairs = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))
