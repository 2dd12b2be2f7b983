"""How pam_limits decides: which line of its files wins, which lines of our own would be enough."""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from gpu_node.drift.limits.services import bound_to
from gpu_node.drift.units import at_least
from gpu_node.facts.limits.confirmed import LAST_FILE, OWN_FILE, OWN_FILES
from gpu_node.facts.limits.state import (
    CONF,
    EXEMPT,
    UNITS,
    Item,
    Limit,
    LimitsState,
    Line,
    User,
)
from gpu_node.inventories.wanted import LimitsWanted

Kind = Literal["soft", "hard"]
# What a file of our own says, in the kernel's unit.
OwnLines = dict[tuple[Kind, Item], Limit]

# More of these is never worse; of the stack it is, see limits.stack-unlimited.
GROWING: tuple[Item, ...] = ("nofile", "memlock", "nproc")
KINDS: tuple[Kind, Kind] = ("soft", "hard")
# Whatever the order, a user's line beats a group's, and that the wildcard's (pam_limits.c).
_USER, _GROUP, _LOGIN_GROUP, _ANY_LOGIN, _ALL_USERS = range(5)
_RANGE = re.compile(r"(\d*):(\d*)")


def is_known(state: LimitsState) -> bool:
    """Return whether all was read that our file is made from; from half of it lines would get lost.

    That is what the files say, for whom we speak, and how many open files the kernel grants.
    """
    return None not in (state.files, state.user, state.nr_open)


def deciding(state: LimitsState, lines: Iterable[Line], item: Item) -> dict[Kind, Line]:
    """Return the lines that decide a limit for the SSH user, as limits.conf(5) ranks them.

    Unknown where the user is not known; nothing decides where a line exempts the user.
    """
    best: dict[Kind, tuple[int, Line]] = {}
    lines = list(lines)
    if state.user is None or exemption(state.user, lines):
        return {}
    for line in lines:
        rank = _rank(line.domain, state) if line.item == item else None
        for kind in (each for each in KINDS if line.kind in (each, "-")):
            if rank is None or (kind in best and best[kind][0] < rank):
                break  # a dash that loses the soft limit sets no hard one, either
            best[kind] = (rank, line)
    return {kind: line for kind, (_, line) in best.items()}


def exemption(user: User, lines: Iterable[Line]) -> Line | None:
    """Return the line that takes a user out of all limits: a name and a dash alone."""
    names = {user.name, *(f"@{group}" for group in user.groups)}
    return next((line for line in lines if line.item == EXEMPT and line.domain in names), None)


def _rank(domain: str, state: LimitsState) -> int | None:
    user = state.user
    if user is None or domain == user.name:
        return _USER
    if bounds := _RANGE.fullmatch(domain):
        return _USER if _within(bounds, user.uid) else None
    if user.uid == 0 and state.pam is not None and state.pam.spares_root:
        return None
    if domain[:1] in ("@", "%") and domain != "%":
        rank = _GROUP if domain[0] == "@" else _LOGIN_GROUP
        return rank if _is_member(domain[1:], user) else None
    return {"*": _ALL_USERS, "%": _ANY_LOGIN}.get(domain)


def _is_member(group: str, user: User) -> bool:
    """Whether a group, or a range of them, is the user's; a range asks for the primary one only."""
    if bounds := _RANGE.fullmatch(group):
        gids = user.gids if not bounds[1] else user.gids[:1]
        return any(_within(bounds, gid) for gid in gids)
    return group in user.groups


def _within(bounds: re.Match[str], number: int) -> bool:
    """Whether a number is in `low:high`, `low:`, or is the one of `:only`."""
    low, high = bounds.groups()
    if not low:
        return bool(high) and number == int(high)
    return number >= int(low) and (not high or number <= int(high))


def lacking(state: LimitsState, wanted: LimitsWanted, item: Item) -> list[Kind]:
    """Return which of the session's limits, soft and hard, are below what is wanted."""
    expected = wanted.stack if item == "stack" else getattr(wanted, item)
    if state.session is None or expected is None:
        return []
    pair = getattr(state.session, item)
    if pair is None or (item == "nproc" and state.user is not None and state.user.uid == 0):
        return []  # the kernel compares the processes of root with no limit (kernel/fork.c)
    if item == "stack":  # the other way round: unlimited is the fault, see limits.stack-unlimited
        return ["soft"] if pair.soft == "unlimited" else []
    return [kind for kind in KINDS if not at_least(getattr(pair, kind), expected)]


def above_nr_open(state: LimitsState, wanted: LimitsWanted) -> bool:
    """Return whether more open files are wanted than the kernel ever grants."""
    return None not in (wanted.nofile, state.nr_open) and (wanted.nofile or 0) > (
        state.nr_open or 0
    )


def own_lines(state: LimitsState, wanted: LimitsWanted) -> OwnLines:
    """Return what our file should say: what it says already, and what the session lacks.

    Only that, so that a limit which is higher by other means is never lowered. Ask `is_known`
    first.
    """
    lines = _present(state, wanted)
    for item in UNITS:
        if item == "nofile" and not (wanted.nofile and grantable(state, wanted.nofile)):
            continue
        expected: Limit | None = getattr(wanted, item)
        if expected is not None and bound_to(state, item, expected):
            continue
        lacks = lacking(state, wanted, item)
        for kind in KINDS if lacks and expected is not None else ():
            # What we asked for above that may be the reason: sshd grants all of a line or nothing.
            ours = lines.get((kind, item))
            if kind in lacks or (ours is not None and at_least(ours, expected or 0)):
                lines[kind, item] = expected or 0
    return lines


def _present(state: LimitsState, wanted: LimitsWanted) -> OwnLines:
    """Return what our file says now, the highest where it says several.

    A number of open files that no session can get is corrected.
    """
    ours = ("*", "root", state.user.name if state.user else "root")
    lines: OwnLines = {}
    for line in state.files or ():
        if line.path not in OWN_FILES or line.domain not in ours or line.item == EXEMPT:
            continue
        value = line.value
        if line.item == "nofile" and not grantable(state, value):
            if wanted.nofile is None or not grantable(state, wanted.nofile):
                continue
            value = wanted.nofile
        for kind in KINDS:
            earlier = lines.get((kind, line.item))
            if line.kind in (kind, "-") and (earlier is None or at_least(value, earlier)):
                lines[kind, line.item] = value
    return lines


def higher(state: LimitsState, own: OwnLines) -> set[tuple[str, Kind, Item]]:
    """Return for which domains a line of others gives more than ours would: ours would lower it."""
    others = (line for line in state.files or () if line.path not in OWN_FILES)
    given: dict[tuple[str, Kind, Item], Limit] = {
        (line.domain, kind, line.item): line.value
        for line in others
        for kind in KINDS
        if line.item in GROWING and line.kind in (kind, "-")
    }
    return {
        (domain, kind, item)
        for (domain, kind, item), value in given.items()
        if value != own.get((kind, item), value)
        and at_least(value, own[kind, item])
        and (item != "nofile" or grantable(state, value))
    }


def grantable(state: LimitsState, nofile: Limit) -> bool:
    """Return whether the kernel would grant that many open files (fs.nr_open; unknown is no)."""
    return state.nr_open is not None and at_least(state.nr_open, nofile)


def with_own(
    state: LimitsState, own: OwnLines, domains: Iterable[str], path: str = OWN_FILE
) -> list[Line]:
    """Return the lines as pam_limits would read them with `own` in our file."""
    others = [line for line in state.files or () if line.path not in OWN_FILES]
    return sorted([*others, *_as_lines(own, domains, path)], key=lambda line: _order(line.path))


def overruling(
    state: LimitsState, wanted: LimitsWanted, item: Item, path: str = LAST_FILE
) -> Line | None:
    """Return the line of others that would still decide with our lines in `path`, if there is one.

    Nothing is read later than LAST_FILE, but for names that sort after it.
    """
    if state.user is None:
        return None
    decided = deciding(
        state, with_own(state, own_lines(state, wanted), domains(state.user), path), item
    )
    for kind in lacking(state, wanted, item):
        line = decided.get(kind)
        if line is not None and line.path not in OWN_FILES and not suffices(line, wanted, item):
            return line
    return None


def suffices(line: Line, wanted: LimitsWanted, item: Item) -> bool:
    """Whether a line grants what is wanted."""
    if item == "stack":
        return line.value != "unlimited"
    return at_least(line.value, getattr(wanted, item))


def own_files(state: LimitsState, wanted: LimitsWanted) -> list[str]:
    """Return the files that our lines are written to: those that have some, and one at least.

    The one that is read last only where a line of another file decides otherwise.
    """
    needs_last = any(overruling(state, wanted, item, OWN_FILE) for item in UNITS)
    paths = {line.path for line in state.files or ()} & {*OWN_FILES}
    return sorted(paths | {LAST_FILE if needs_last else OWN_FILE})


def _as_lines(own: OwnLines, domains: Iterable[str], path: str) -> Iterator[Line]:
    for domain in domains:
        for (kind, item), value in own.items():
            yield Line(path=path, line=0, domain=domain, kind=kind, item=item, value=value)


def _order(path: str) -> tuple[bool, str]:
    """Sort key: limits.conf first, then limits.d by name in the C locale."""
    return (path != CONF, path)


def domains(user: User) -> list[str]:
    """Return the domains of our lines: all users, root (whom `*` may leave out), and the SSH user.

    A name with blanks in it cannot be written in limits.conf(5).
    """
    names = ["*", "root"]
    return names if user.name in names or " " in user.name else [*names, user.name]
