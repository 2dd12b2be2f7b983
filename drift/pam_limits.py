"""How pam_limits decides: which line of its files wins, which lines of our own would be enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from drift.quantity import Limit, at_least
from facts.limits import CONF, Item, LimitsState, Line, User
from inventories.schema import LimitsWanted

OWN_FILE = "/etc/security/limits.d/99-gpu-node.conf"

Kind = Literal["soft", "hard"]
# What a file of our own says, in the kernel's unit.
OwnLines = dict[tuple[Kind, Item], Limit]

KINDS: tuple[Kind, Kind] = ("soft", "hard")
# Whatever the order, a user's line beats a group's, and that the wildcard's (pam_limits.c).
_USER, _GROUP, _ANYBODY = range(3)


def winner(lines: Iterable[Line], user: User, item: Item, kind: Kind) -> Line | None:
    """Return the line that decides a limit for a user, as limits.conf(5) ranks them."""
    best: tuple[int, Line] | None = None
    for line in lines:
        if line.item != item or line.kind not in (kind, "-"):
            continue
        rank = _rank(line.domain, user)
        if rank is not None and (best is None or rank <= best[0]):
            best = (rank, line)
    return best[1] if best else None


def _rank(domain: str, user: User) -> int | None:
    if domain == user.name:
        return _USER
    if user.name == "root":  # groups and the wildcard do not apply to root
        return None
    if domain.startswith("@") and domain[1:] in user.groups:
        return _GROUP
    return _ANYBODY if domain == "*" else None


def lacking(found: LimitsState, wanted: LimitsWanted, item: Item) -> list[Kind]:
    """Return which of the session's limits, soft and hard, are below what is wanted."""
    wish = wanted.stack if item == "stack" else getattr(wanted, item)
    if found.session is None or wish is None:
        return []
    pair = getattr(found.session, item)
    if item == "stack":  # the other way round: unlimited is the fault, see limits.stack-unlimited
        return ["soft"] if pair.soft == "unlimited" else []
    return [kind for kind in KINDS if not at_least(getattr(pair, kind), wish)]


def above_nr_open(found: LimitsState, wanted: LimitsWanted) -> bool:
    """Return whether more open files are wanted than the kernel ever grants."""
    return None not in (wanted.nofile, found.nr_open) and (wanted.nofile or 0) > (
        found.nr_open or 0
    )


def own_lines(found: LimitsState, wanted: LimitsWanted) -> OwnLines:
    """Return what our file should say: what it says already, and what the session lacks.

    Only that, so that a limit which is higher by other means is never lowered.
    """
    lines = _present(found, wanted)
    for item in ("nofile", "memlock", "stack"):
        if item == "nofile" and not (wanted.nofile and grantable(found, wanted.nofile)):
            continue
        wish: Limit | None = getattr(wanted, item)
        for kind in lacking(found, wanted, item):
            if wish is not None:
                lines[kind, item] = wish
    return lines


def _present(found: LimitsState, wanted: LimitsWanted) -> OwnLines:
    """Return what our file says now; a number of open files that no session can get is mended."""
    lines: OwnLines = {}
    for line in found.files or ():
        if line.path != OWN_FILE or line.domain != "*":
            continue
        value = line.value
        if line.item == "nofile" and not grantable(found, value):
            if wanted.nofile is None or not grantable(found, wanted.nofile):
                continue
            value = wanted.nofile
        for kind in KINDS:
            if line.kind in (kind, "-"):
                lines[kind, line.item] = value
    return lines


def grantable(found: LimitsState, nofile: Limit) -> bool:
    """Return whether the kernel would grant that many open files (fs.nr_open; unknown is no)."""
    return found.nr_open is not None and at_least(found.nr_open, nofile)


def with_own(found: LimitsState, own: OwnLines, domains: Iterable[str]) -> list[Line]:
    """Return the lines as pam_limits would read them with `own` in our file."""
    others = [line for line in found.files or () if line.path != OWN_FILE]
    return sorted([*others, *_as_lines(own, domains)], key=lambda line: _order(line.path))


def _as_lines(own: OwnLines, domains: Iterable[str]) -> Iterator[Line]:
    for domain in domains:
        for (kind, item), value in own.items():
            yield Line(path=OWN_FILE, line=0, domain=domain, kind=kind, item=item, value=value)


def _order(path: str) -> tuple[bool, str]:
    """Sort key: limits.conf first, then limits.d by name in the C locale."""
    return (path != CONF, path)


def domains(user: User | None) -> list[str]:
    """Return for whom our file speaks: everybody, root (whom `*` leaves out), and the SSH user."""
    names = ["*", "root"]
    return names if user is None or user.name in names else [*names, user.name]
