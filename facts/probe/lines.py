"""Text and lines of what a node sends: only a newline ends a line, whatever a user's bytes are."""

import re

# The other characters that Python takes for the end of a line, or for white space: `str.split`
# would make two fields of one. A carriage return stays: start files with it are reported.
_BLANKS = re.compile("[\x0b\x0c\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")


def decoded(data: bytes) -> str:
    """Return a node's bytes as text, with escapes for bytes that are not UTF-8 and odd blanks."""
    text = data.decode("utf-8", "backslashreplace")
    return _BLANKS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without their ends.

    `str.splitlines` ends a line at a form feed or at U+2028 too: a user could write a second line.
    """
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
