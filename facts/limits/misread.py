"""Lines of limits.conf(5) that pam_limits skips, or reads otherwise than they are meant."""

import re

from gpu_node.facts.probe.base import State

# Of all versions of pam_limits; the last ones take no kind, or a value that is not a limit.
_ITEMS = (
    *("core", "data", "fsize", "memlock", "nofile", "rss", "stack", "cpu", "nproc", "as", "locks"),
    *("sigpending", "msgqueue", "nice", "rtprio", "priority"),
    *("maxlogins", "maxsyslogins", "chroot", "nonewprivs"),
)
_KINDS = ("soft", "hard", "-")
_UNLIMITED = ("unlimited", "infinity", "-1", "-")
_SIGNED = ("nice", "priority")
# What separates words in C, and a byte order mark, as UTF-8 or as Latin-1.
_BLANKS = re.compile(r"[ \t\n\v\f\r]+")
_MARKS = ("\ufeff", "\xef\xbb\xbf")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_LONGEST = 60


class Misread(State):
    """A line of a limits file, and why pam_limits does not do what it says."""

    path: str
    line: int
    text: str
    why: str


def parse_misread(text: str) -> tuple[Misread, ...]:
    """Parse `PATH:LINE:content`."""
    wrong: list[Misread] = []
    for each in text.split("\n"):
        path, _, rest = each.partition(":")
        number, _, content = rest.partition(":")
        if why := misread(content):
            shown = " ".join(content.split())[:_LONGEST]
            wrong.append(Misread(path=path, line=int(number), text=shown, why=why))
    return tuple(wrong)


def misread(content: str) -> str:
    """Return what is wrong with a line; empty if pam_limits does what it says, or it is a comment.

    A carriage return at its end is a blank for pam_limits, and does no harm.
    """
    words = [each for each in _BLANKS.split(content.partition("#")[0]) if each]
    if "\r" in content.rstrip("\r"):
        return "it has carriage returns in place of line ends, so all of it counts as one line"
    # Before a comment the mark does no harm.
    return _of_words(words) if words and words[0] not in _MARKS else ""


def _of_words(words: list[str]) -> str:
    if words[0].startswith(_MARKS):
        return "a byte order mark is in front of its first word, so it matches no user"
    if len(words) == 2 and words[1].startswith("-"):
        return ""
    if len(words) < 4:
        return f"it has {len(words)} of the 4 words <domain> <type> <item> <value>"
    kind, item, value = (word.lower() for word in words[1:4])
    if item not in _ITEMS:
        return f"there is no item {item}"
    if kind not in _KINDS and item not in _ITEMS[-4:]:
        return f"there is no type {kind}, only soft, hard and -"
    return "" if item in ("chroot", "nonewprivs") else _of_value(value, item)


def _of_value(value: str, item: str) -> str:
    if value in _UNLIMITED:
        return ""
    number = _NUMBER.match(value)
    if number is None:
        return f"{value} is not a number"
    if number[0] != value:
        return f"it is read as {number[0]}: pam_limits ignores {value[number.end() :]}"
    return "" if item in _SIGNED or not value.startswith("-") else f"{value} is below 0"
