"""Limit rule about the training user, where that is not the SSH user: what sshd would give."""

from collections.abc import Iterable, Iterator
from shlex import quote

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Limit
from gpu_node.drift.limits.pam_limits import (
    GROWING,
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
from gpu_node.drift.limits.rules import alone, below_sshd, cause_of, stops_a_job
from gpu_node.drift.limits.services import bound_to, sshd
from gpu_node.drift.units import at_least, conf_limit, limit
from gpu_node.facts.limits.state import Item, LimitsState, Line, User
from gpu_node.facts.limits.state import Limit as Value
from gpu_node.inventories.wanted import LimitsWanted


@check("limits.training-user")
def training_user(at: At) -> Iterator[Fault]:
    state, wanted = at.node.limits, at.wanted.limits
    user = state.trainer
    if wanted is None or user is None or user == state.user or not is_known(state):
        return
    unknown: list[Item] = []
    for item in GROWING:
        expected: Value | None = getattr(wanted, item)
        if expected is None or (item == "nofile" and above_nr_open(state, wanted)):
            continue
        if item == "nproc" and user.uid == 0:
            continue
        lines = _deciding(state, wanted, user, item)
        bound = bound_to(state, item, expected)
        most: Value = getattr(bound.limits, item).hard if bound else "unlimited"
        hard = _value(state, lines, "hard", item, most)
        # PAM lowers a soft limit to the hard one.
        soft = _value(state, lines, "soft", item, most if hard is None else hard)
        values: dict[Kind, Value | None] = {"soft": soft, "hard": hard}
        low = [kind for kind in KINDS if not at_least(_or(values[kind], expected), expected)]
        if low:
            of = (lines[kind] for kind in low if kind in lines)
            deciding_lines = [line for line in of if not at_least(line.value, expected)]
            cause, fix = (
                below_sshd(state, item, expected)
                if bound
                else _of_lines(user, item, expected, deciding_lines)
            )
            has = [
                f"{kind} {limit(value, item)}"
                for kind, value in values.items()
                if value is not None
            ]
            yield Fault(
                subject=Limit(item, f"{item} of {user.name}"),
                found=", ".join(has),
                wanted=limit(expected, item),
                cause=f"{cause}; {cause_of(item)}",
                fix=fix,
                stops=stops_a_job(at.node, item, values["soft"]),
                alone=alone(item, low),
            )
        elif None in values.values():
            unknown.append(item)
    if unknown:
        yield _not_measured(state, user, unknown)


def _or(value: Value | None, expected: Value) -> Value:
    return expected if value is None else value


def _deciding(state: LimitsState, wanted: LimitsWanted, user: User, item: Item) -> dict[Kind, Line]:
    """Return the lines that decide for the training user, after what this run writes."""
    if state.user is None or (state.pam is not None and state.pam.sshd_uses_pam is False):
        return {}
    own = own_lines(state, wanted)
    path = own_files(state, wanted)[-1]
    lines = with_own(state, own, domains(state.user), path)
    return deciding(state.model_copy(update={"user": user}), lines, item)


def _value(
    state: LimitsState, lines: dict[Kind, Line], kind: Kind, item: Item, most: Value
) -> Value | None:
    """Return what a login has: of the line, or else of sshd itself; None where that is unknown.

    No line gives more than `most`.
    """
    service = sshd(state)
    pair = getattr(service.limits, item) if service else None
    value = lines[kind].value if kind in lines else getattr(pair, kind, None)
    return most if value is not None and at_least(value, most) else value


def _of_lines(user: User, item: Item, expected: Value, lines: Iterable[Line]) -> tuple[str, str]:
    """Return cause and cure where a line of limits.conf or limits.d decides, or could."""
    places = list(dict.fromkeys(f"{quote(line.path)} line {line.line}" for line in lines))
    if places:
        some = " and ".join(places)
        return (
            f"{some} decide{'' if places[1:] else 's'}",
            f"raise or remove what {some} set{'' if places[1:] else 's'}",
        )
    return (
        f"no line of limits.conf or limits.d is for {user.name}: sshd's own limits stay",
        f"write `{user.name} - {item} {conf_limit(expected, item)}` in a file in "
        "/etc/security/limits.d",
    )


def _not_measured(state: LimitsState, user: User, items: list[Item]) -> Fault:
    has = state.user.name if state.user else "the SSH user"
    return Fault(
        subject=Limit(items[0], f"limits of {user.name}"),
        found=f"not measured: {', '.join(items)}",
        wanted="known for the training user",
        cause=f"the limits of a session are those of {has}, who logs in here; no line of "
        f"limits.conf or limits.d is for {user.name}, and the limits of sshd itself are not known",
        fix=f"look as {user.name}: ulimit -Sn; ulimit -Hn; ulimit -Hl; ulimit -Hu",
        severity="info",
    )
