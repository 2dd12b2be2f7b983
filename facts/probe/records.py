"""Lines that a script of the deploy writes for a later run: words, and what it did to a file."""

import re
from dataclasses import dataclass

# What stands for the sha256 of a file that does not exist.
ABSENT = "absent"
_WORD = re.compile(r"(?:[!-\[\]-~]|\\[0-3][0-7]{2})+")
_SUM = re.compile(rf"{ABSENT}|[0-9a-f]{{64}}")
_MODE, _OWNERS = re.compile(r"[0-7]{1,4}"), re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
# sudo takes #0 for a number, and all programs a hyphen for an option.
_ACCOUNT = re.compile(r"[^\s:/#-][^\s:/]{0,255}")
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Change:
    """One change of a file: its sha256 before and after, or "absent"; mode and owners before.

    `user` is whose home it is in, or root.
    """

    before: str
    after: str
    mode: str
    owners: str
    user: str
    path: str


def line_of(*words: str) -> str:
    """Return words as the one line that record.sh writes of them."""
    return " ".join("".join(map(_coded, word.encode("utf-8", _BYTES))) for word in words)


def words_of(line: str) -> tuple[str, ...]:
    """Return the words of such a line; none if record.sh did not write it."""
    parts = line.split(" ")
    if not all(map(_WORD.fullmatch, parts)):
        return ()
    words = tuple(_decoded(part) for part in parts)
    return words if line_of(*words) == line and not any("\0" in word for word in words) else ()


def change_of(line: str) -> Change | None:
    """Return what a line has: BEFORE AFTER MODE UID:GID USER PATH; None if it is not one.

    A file that was absent has neither mode nor owners: a hyphen stands for each.
    """
    words = words_of(line)
    if len(words) != 6 or not path_of(line) or not is_account(words[4]):
        return None
    before, after, *kind, _, _ = words
    if not (_SUM.fullmatch(before) and _SUM.fullmatch(after)):
        return None
    if before == ABSENT:
        return Change(before, after, "", "", *words[4:]) if kind == ["-", "-"] else None
    is_kind = _MODE.fullmatch(kind[0]) and _OWNERS.fullmatch(kind[1])
    return Change(*words) if is_kind else None


def path_of(line: str) -> str:
    """Return the path at the end of a line about a file, whatever else it has; or nothing."""
    path = (words_of(line.rpartition(" ")[2]) or ("",))[-1]
    return path if path.startswith("/") and len(path) <= _LONGEST_PATH else ""


def is_account(name: str) -> bool:
    """Whether a name may be that of an account."""
    return name.isprintable() and _ACCOUNT.fullmatch(name) is not None


# Bytes that are not UTF-8 are kept, each as half of a surrogate pair.
_BYTES = "surrogateescape"


def _coded(byte: int) -> str:
    return chr(byte) if 0x20 < byte < 0x7F and byte != 0x5C else f"\\{byte:03o}"


def _decoded(part: str) -> str:
    plain = re.sub(r"\\(...)", lambda match: chr(int(match[1], 8)), part)
    return plain.encode("latin-1").decode("utf-8", _BYTES)
