"""Shell patterns from a node or a file: matched in linear time, and never compiled."""

from collections.abc import Iterable

_ANY, _ONE = "*", "?"


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name matches at least one of the patterns."""
    return any(matches(name, pattern) for pattern in patterns)


def matches(name: str, pattern: str, sets: bool = True) -> bool:
    """Whether a name matches a pattern of `*`, `?`, `[abc]`, `[a-c]` and `[!abc]`, as in fnmatch.

    Without `sets` a bracket stands for itself, as in ssh's files.
    A regular expression made from a pattern may run forever; here only the last `*` is retried.
    """
    parts = _parts(pattern, sets)
    at = place = again = 0
    star = -1
    while at < len(name):
        part = parts[place] if place < len(parts) else None
        if part == _ANY:
            star, again = place, at
            place += 1
        elif part is not None and _fits(name[at], part):
            at += 1
            place += 1
        elif star >= 0:
            again += 1
            at, place = again, star + 1
        else:
            return False
    return all(part == _ANY for part in parts[place:])


def _parts(pattern: str, sets: bool) -> list[str]:
    """Return a pattern's parts: `*`, `?`, a character after a backslash, or a set as written."""
    parts: list[str] = []
    at, last = 0, pattern.rfind("]") if sets else -1
    while at < len(pattern):
        end = _set_end(pattern, at) if pattern[at] == "[" and at < last else -1
        if end > 0:
            parts.append(pattern[at : end + 1])
            at = end
        elif pattern[at] not in (_ANY, _ONE):
            parts.append(f"\\{pattern[at]}")
        elif pattern[at] == _ONE or parts[-1:] != [_ANY]:
            parts.append(pattern[at])
        at += 1
    return parts


def _set_end(pattern: str, at: int) -> int:
    """Return the place of the bracket that ends a set; -1 if there is none."""
    first = at + 2 if pattern[at + 1 : at + 2] == "!" else at + 1
    return pattern.find("]", first + 1)


def _fits(character: str, part: str) -> bool:
    if part == _ONE:
        return True
    if part[0] == "\\":
        return part[1] == character
    inside = part[1:-1]
    negated, inside = inside.startswith("!"), inside.removeprefix("!")
    return _is_in(character, inside) is not negated


def _is_in(character: str, inside: str) -> bool:
    at = 0
    while at < len(inside):
        if at + 2 < len(inside) and inside[at + 1] == "-":
            if inside[at] <= character <= inside[at + 2]:
                return True
            at += 3
        else:
            if inside[at] == character:
                return True
            at += 1
    return False
