"""Limit rule about the training user, where that is not the SSH user: what sshd would give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote

from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Limit
from gpu_node.drift.limits.pam_limits import (
    KINDS,
    Kind,
    above_nr_open,
    deciding,
    domains,
    is_known,
    own_files,
    own_lines,
    with_own,
)
from gpu_node.drift.limits.rules import cause_of
from gpu_node.drift.units import at_least, limit
from gpu_node.facts.limits.state import UNITS, Item, LimitsState, Line, User
from gpu_node.facts.limits.state import Limit as Value
from gpu_node.inventories.schema import LimitsWanted

_ITEMS: tuple[Item, ...] = ("nofile", "memlock", "nproc")


@rule(
    "limits.training-user",
    ("error", "info"),
    under="limits",
    or_keys=("limits.memlock", "limits.nproc"),
    why="Jobs run as the training user: the limits of the SSH user say nothing about that user.",
    manual="Raise or remove the line that the finding names, or add one in /etc/security/limits.d.",
    alone="Run ulimit -n $(ulimit -Hn) before the job: this raises the soft limit to the hard "
    "limit.",
)
def training_user(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """A login of the training user, who is not the SSH user, has lower limits than wanted."""
    user = found.trainer
    if user is None or user == found.user or not is_known(found):
        return
    unknown: list[Item] = []
    for item in _ITEMS:
        expected: Value | None = getattr(wanted, item)
        if expected is None or (item == "nofile" and above_nr_open(found, wanted)):
            continue
        if item == "nproc" and user.uid == 0:
            continue
        lines = _deciding(found, wanted, user, item)
        values = {kind: _value(found, lines, kind, item) for kind in KINDS}
        low = [kind for kind in KINDS if not at_least(_or(values[kind], expected), expected)]
        if low:
            yield _too_low(user, item, expected, values, [lines[k] for k in low if k in lines])
        elif None in values.values():
            unknown.append(item)
    if unknown:
        yield _not_measured(found, user, unknown)


def _or(value: Value | None, expected: Value) -> Value:
    return expected if value is None else value


def _deciding(found: LimitsState, wanted: LimitsWanted, user: User, item: Item) -> dict[Kind, Line]:
    """Return the lines that decide for the training user, after what this run writes."""
    if found.user is None or (found.pam is not None and found.pam.sshd_uses_pam is False):
        return {}
    own = own_lines(found, wanted)
    path = own_files(found, wanted)[-1]
    lines = with_own(found, own, domains(found.user), path)
    return deciding(found.model_copy(update={"user": user}), lines, item)


def _value(found: LimitsState, lines: dict[Kind, Line], kind: Kind, item: Item) -> Value | None:
    """Return what a login has: of the line, or else of sshd itself; None where that is unknown."""
    if kind in lines:
        return lines[kind].value
    for service in found.services or ():
        if service.name == "sshd":
            pair = getattr(service.limits, item)
            return None if pair is None else getattr(pair, kind)
    return None


def _too_low(
    user: User,
    item: Item,
    expected: Value,
    values: dict[Kind, Value | None],
    lines: Iterable[Line],
) -> Fault:
    in_bytes = item in ("memlock", "stack")
    shown = [
        f"{kind} {limit(value, in_bytes)}" for kind, value in values.items() if value is not None
    ]
    places = list(dict.fromkeys(f"{quote(each.path)} line {each.line}" for each in lines))
    written = expected if expected == "unlimited" else int(expected) // UNITS[item]
    if places:
        why = f"{' and '.join(places)} decide{'' if places[1:] else 's'}"
        fix = f"raise or remove what {' and '.join(places)} set{'' if places[1:] else 's'}"
    else:
        why = f"no line of limits.conf or limits.d is for {user.name}: sshd's own limits stay"
        fix = f"write `{user.name} - {item} {written}` in a file in /etc/security/limits.d"
    return Fault(
        subject=Limit(item, f"{item} of {user.name}"),
        found=", ".join(shown),
        wanted=limit(expected, in_bytes),
        cause=f"{why}; {cause_of(item)}",
        fix=fix,
        fixable=False,
    )


def _not_measured(found: LimitsState, user: User, items: list[Item]) -> Fault:
    has = found.user.name if found.user else "the SSH user"
    return Fault(
        subject=Limit(items[0], f"limits of {user.name}"),
        found=f"not measured: {', '.join(items)}",
        wanted="known for the training user",
        cause=f"the limits of a session are those of {has}, who logs in here; no line of "
        f"limits.conf or limits.d is for {user.name}, and the limits of sshd itself are not known",
        fix=f"look as {user.name}: ulimit -Sn; ulimit -Hn; ulimit -Hl; ulimit -Hu",
        fixable=False,
        severity="info",
    )
