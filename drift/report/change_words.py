"""How a change is written for people: its moment, and of two values what differs."""

from datetime import datetime

from gpu_node.inventories.plurals import few

# Whether a node answered is a fact of it as well.
ANSWER, ANSWERED = "answer", "answered"
_BETWEEN = ", "
# So many parts of a list that differ are shown.
_MOST_PARTS = 8


def moment(at: str) -> str:
    """Return an ISO 8601 time as this machine's clock shows it: Tue 2026-11-24 09:12."""
    return f"{datetime.fromisoformat(at).astimezone():%a %Y-%m-%d %H:%M}"


def change(before: str | None, now: str | None) -> str:
    """Return what a value was and is; of two long lists only the parts that differ."""
    if before is None or now is None:
        return f"{before or 'nothing'} -> {now or 'nothing'}"
    was, has = before.split(_BETWEEN), now.split(_BETWEEN)
    if len(was) + len(has) <= _MOST_PARTS:
        return f"{before} -> {now}"
    return _BETWEEN.join(few(_apart(was, has), _MOST_PARTS))


def _apart(was: list[str], has: list[str]) -> list[str]:
    """Return the parts that differ: of parts with one name, such as of a package, both values."""
    kept = {*was} & {*has}
    old = dict(_named(each) for each in was if each not in kept)
    new = dict(_named(each) for each in has if each not in kept)
    return [
        f"{name} {old.get(name, 'nothing')} -> {new.get(name, 'nothing')}"
        for name in dict.fromkeys((*old, *new))
    ]


def _named(part: str) -> tuple[str, str]:
    name, _, value = part.partition(" ")
    return name, value
