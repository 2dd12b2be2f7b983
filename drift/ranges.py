"""Names of nodes: by what they have in common, and as ranges: a100-[01-20,23], all."""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.DOTALL)
_LONGEST = 9
# Nodes that are configured alike differ from the same others: so many such lists are kept.
_ALIKE = 64
_Key = TypeVar("_Key")
_Each = TypeVar("_Each")


def gathered(pairs: Iterable[tuple[_Key, _Each]]) -> dict[_Key, list[_Each]]:
    """Return what has the same key: nodes with one value, findings of one rule."""
    by_key: dict[_Key, list[_Each]] = {}
    for key, each in pairs:
        by_key.setdefault(key, []).append(each)
    return by_key


def ranges(names: Iterable[str], of: Collection[str] = ()) -> str:
    """Return names in their order, numbers that follow each other as one range.

    `all` stands for two or more names that are all those in `of`.
    """
    given = tuple(dict.fromkeys(names))
    if len(given) > 1 and {*given} == {*of}:
        return "all"
    return _ranges(given)


@lru_cache(_ALIKE)
def _ranges(given: tuple[str, ...]) -> str:
    groups: dict[tuple[str, int, str], list[str]] = {}
    alone: dict[str, tuple[str, int, str]] = {}
    for name in given:
        match = _NUMBERED.fullmatch(name)
        if match is None or len(match[2]) > _LONGEST:
            alone[name] = ("", 0, name)
            continue
        key = (match[1], len(match[2]), match[3])
        groups.setdefault(key, []).append(match[2])
        alone[name] = key
    shown: dict[tuple[str, int, str], str] = {}
    for name, key in alone.items():
        if key not in shown:
            numbers = groups.get(key, [])
            listed = ",".join(_spans(sorted({*numbers}))) if len(numbers) > 1 else ""
            shown[key] = f"{key[0]}[{listed}]{key[2]}" if listed else name
    return ", ".join(shown.values())


def _spans(numbers: list[str]) -> Iterator[str]:
    """Yield numbers of one length in order, those that follow each other as first-last."""
    first = last = numbers[0]
    for number in [*numbers[1:], ""]:
        if number and int(number) == int(last) + 1:
            last = number
            continue
        yield first if first == last else f"{first}-{last}"
        first = last = number
