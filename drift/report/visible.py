"""What a node says, fit for a terminal: characters that steer it, or hide, are written out."""

from __future__ import annotations

import re

# C0, DEL and C1 controls; what breaks lines or turns the direction of writing; half surrogates.
_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return `text` with each such character as Python would write it: \x1b, \n, \u202e."""
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def visible_lines(text: str) -> str:
    """Return `text` made visible, with its newlines."""
    return "\n".join(map(visible, text.split("\n")))
