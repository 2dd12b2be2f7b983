"""Bounds of a node's output: numbers, lengths and characters that the controller can process."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

# The 64-bit numbers of a kernel, signed or unsigned.
LEAST, MOST = -(2**63), 2**64 - 1
# The lines of a program, and one text in them; longer lists have separate bounds.
LONGEST = 1 << 18
MOST_ENTRIES = 1 << 18
DEEPEST = 12
# What a parser puts values into. To ask for an abstract Collection takes longer than all else.
_COLLECTIONS = (tuple, list, set, frozenset, dict)
# The range of datetime, from 1970 to 9999.
_LAST_MOMENT = 253_402_300_799
# The characters of an error that are reported.
_MOST_WORDS = 500
# Half of a surrogate pair: it cannot be encoded.
_SURROGATE = re.compile("[\ud800-\udfff]")


def moment(seconds: int) -> int:
    """Return seconds since 1970 within the range of datetime: a user can give a file any time.

    A time before 1970 becomes 1970.
    """
    return min(max(seconds, 0), _LAST_MOMENT)


def require(*values: Any, longest: int = LONGEST) -> None:
    """Raise ValueError for a value that no honest node has; models have checked theirs already."""
    _require(values, longest, DEEPEST)


def _require(values: Iterable[Any], longest: int, depth: int) -> None:
    for value in values:
        # Of a large cluster there are millions of texts, each in a tuple: they need no more calls.
        only = value[0] if type(value) is tuple and len(value) == 1 else value
        if only is None:
            continue
        if isinstance(only, (str, bytes)):
            if len(only) > longest or not only.isascii():
                _require_text(only, longest)
        elif isinstance(only, int):
            if not LEAST <= only <= MOST:
                raise ValueError("a number of more than 64 bits")
        elif isinstance(only, float):
            if not math.isfinite(only):
                raise ValueError(f"{only} is not a finite number")
        elif isinstance(only, _COLLECTIONS):
            _require_entries(only, longest, depth)


def _require_text(text: str | bytes, longest: int) -> None:
    if len(text) > longest:
        raise ValueError(f"a text of {len(text)} characters, more than {longest}")
    if isinstance(text, str) and (half := _SURROGATE.search(text)):
        raise ValueError(f"a text with an incomplete character: {text[: half.end()][-40:]!a}")


def _require_entries(values: Collection[Any], longest: int, depth: int) -> None:
    if len(values) > MOST_ENTRIES:
        raise ValueError(f"{len(values)} entries, more than {MOST_ENTRIES}")
    if depth == 0:
        raise ValueError(f"values nested more than {DEEPEST} deep")
    if isinstance(values, dict):
        _require(values, longest, depth - 1)
        values = values.values()
    _require(values, longest, depth - 1)


def in_words(error: BaseException) -> str:
    """Return an error's class and text, in one line that fits into a report."""
    words = " ".join(str(error)[: 2 * _MOST_WORDS].split())
    return short(f"{type(error).__name__}: {words}" if words else type(error).__name__)


def not_understood(error: BaseException) -> str:
    """Return why an answer gives no state: reading it, or judging it, raised an error."""
    return f"its answer is not understood: {in_words(error)}"


def breaking(judge: Callable[[tuple[str, ...]], object], names: Iterable[str]) -> dict[str, str]:
    """Return the nodes without which `judge` does not raise, each with the error.

    The answers were checked when they were read: what breaks a judgement of several nodes is an
    error of ours, and it is judged once without each of them. If none is found it is all of them.
    """
    names = tuple(names)
    reason = _error(judge, names)
    if reason is None:
        return {}
    without = ((name, tuple(each for each in names if each != name)) for name in names)
    blamed = [name for name, others in without if _error(judge, others) is None]
    return dict.fromkeys(blamed or names, reason)


def _error(judge: Callable[[tuple[str, ...]], object], names: tuple[str, ...]) -> str | None:
    try:
        judge(names)
    except Exception as error:  # of any class: the answer of a node caused it
        return in_words(error)
    return None


def short(reason: str) -> str:
    """Return a reason, cut to fit into a report: the output of a node may have any length."""
    text = reason if len(reason) <= _MOST_WORDS else f"{reason[:_MOST_WORDS]}..."
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_json(text: str) -> Any:
    """Return the value of a node's JSON; ValueError where it is ambiguous or out of bounds.

    If a key occurs twice, readers take different values; NaN compares with nothing.
    """
    try:
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_number)
    except RecursionError:
        raise ValueError(f"JSON nested more than {DEEPEST} deep") from None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("JSON with the same key twice")
    return mapping


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a finite number")
