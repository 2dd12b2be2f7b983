"""Limit rules: open files, locked memory and stack as a fresh session has them, and why it does."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from shlex import quote

from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.rule import RULES, At, Fault, check
from gpu_node.drift.engine.subject import Limit, Path
from gpu_node.drift.host.machine import is_machine, trains
from gpu_node.drift.limits import services
from gpu_node.drift.limits.pam_limits import (
    GROWING,
    Kind,
    above_nr_open,
    deciding,
    exemption,
    grantable,
    is_known,
    lacking,
    overruling,
    own_files,
    suffices,
)
from gpu_node.drift.units import at_least, conf_limit, limit
from gpu_node.facts.limits.confirmed import OWN_FILES, PAM_STACK
from gpu_node.facts.limits.state import Item, LimitsState, Line
from gpu_node.facts.limits.state import Limit as Value
from gpu_node.facts.node import NodeState
from gpu_node.inventories.wanted import LimitsWanted

# PAM files that sshd reads itself or by the usual includes (Debian, Ubuntu; Red Hat).
_SSHD_PAM = ("sshd", "common-session", "password-auth", "system-auth")

# Why a session lacks what the files grant and sshd can give.
_LATER = (
    "something lowers it after the login, such as ulimit in ~/.bashrc or in /etc/profile.d",
    "remove that ulimit from the start files of the shell",
)
# What helps where sshd may not raise its own hard limit.
_BOUND = "raise the limit where sshd is started: the container's --ulimit, or its systemd unit"
# What who trains can do where the hard limit is too low: the soft one cannot go above it.
_BELOW_HARD = "Only an administrator can raise the hard limit. Until then"
_MEANWHILE: dict[Item, str] = {
    "nofile": f"{_BELOW_HARD} open fewer files: a smaller num_proc, fewer DataLoader workers.",
    "memlock": f"{_BELOW_HARD} set NCCL_IB_DISABLE=1, which is slow.",
}
# The line that a deploy adds to the PAM stack of sshd, as distributions write it.
PAM_LINE = "session    required   pam_limits.so"


@dataclass(frozen=True)
class Floor:
    """What a session has at least where the inventory names no number, and what to write there."""

    least: int
    proposed: Value
    severity: Severity
    # "hard " where the soft limit is not judged.
    side: str = ""
    also: str = ""


# Proposed. CentOS 7 grants 4096 open files; cluster tools set 20480 and more (OCI, Soperator), and
# NCCL's user guide 131072. NCCL raises its soft limit to the hard one: a soft limit of 1024 is what
# distributions have, and no fault.
_OPEN_FILES, _PROPOSED_FILES = 16384, 131072
# NCCL's user guide asks for unlimited, AWS's checks for 16 GiB. Without InfiniBand or RoCE nothing
# of NCCL locks memory: less than the kernel's default since 5.16 is only named.
_REGISTERED = Floor(16 << 30, "unlimited", "warning")
_LOCKED = Floor(8 << 20, "unlimited", "info", also="no InfiniBand or RoCE port is active here")


def _session_value(state: LimitsState, item: Item) -> str:
    if state.session is None:
        return "unreadable"
    pair = getattr(state.session, item)
    if pair is None:
        return "unreadable"
    return f"soft {limit(pair.soft, item)}, hard {limit(pair.hard, item)}"


def _granted(state: LimitsState, wanted: LimitsWanted, item: Item) -> bool:
    """Return whether the files grant all that the session lacks.

    A line of ours that asks for more than is wanted grants nothing: sshd may not give that much.
    """
    lines, expected = deciding(state, state.files or (), item), getattr(wanted, item)
    too_much = any(
        line.path in OWN_FILES and line.value != expected and at_least(line.value, expected)
        for line in lines.values()
    )
    return not too_much and all(
        kind in lines and at_least(lines[kind].value, expected)
        for kind in lacking(state, wanted, item)
    )


def _manual_fix(state: LimitsState, wanted: LimitsWanted, item: Item) -> str | None:
    """Return what a person has to do before a file of ours can help; None if it helps as it is."""
    if not is_known(state):
        return "first repair what could not be read, see limits.unreadable"
    line = exemption(state.user, state.files or ()) if state.user else None
    if line is not None:
        return (
            f"{quote(line.path)} line {line.line} exempts {line.domain} from all limits: remove it"
        )
    line = overruling(state, wanted, item)
    if line is not None:
        return f"{quote(line.path)} line {line.line} sets the limit: raise or remove it"
    if services.bound_to(state, item, getattr(wanted, item)):
        rest = f"{own_files(state, wanted)[-1]}{_line(state, wanted, item)}"
        return f"{_BOUND}; if the soft limit of a new session is lower, write it into {rest}"
    trouble = None if adds_pam_limits(state) else _pam_trouble(state)
    return trouble[1] if trouble else None


def _decided(state: LimitsState, wanted: LimitsWanted, item: Item) -> str:
    """Return which lines of the files set what the session lacks."""
    now = deciding(state, state.files or (), item)
    lines = [now[kind] for kind in lacking(state, wanted, item) if kind in now]
    low = {f"{quote(line.path)} line {line.line}": line for line in lines}
    named = [
        f"{where} ({each.domain} {each.kind} {item} {conf_limit(each.value, item)})"
        for where, each in low.items()
        if not suffices(each, wanted, item)
    ]
    return f"{' and '.join(named)} decide{'' if named[1:] else 's'} now" if named else ""


def _line(state: LimitsState, wanted: LimitsWanted, item: Item) -> str:
    """Return the line for the SSH user: `*` may leave out root, and a dash lower the hard limit."""
    if state.user is None or " " in state.user.name:
        return ""
    kinds = ["soft"] if item == "stack" else lacking(state, wanted, item)
    value = conf_limit(getattr(wanted, item), item)
    return f": `{state.user.name} {'-' if kinds[1:] else kinds[0]} {item} {value}`"


def stops_a_job(state: NodeState, item: Item, value: Value | None) -> bool:
    """Whether a limit of who trains is of locked memory, and too low for InfiniBand.

    The kernel holds root to none, who has CAP_IPC_LOCK on a machine (ib_umem_get).
    """
    user = state.limits.trainer or state.limits.user
    is_root = user is not None and user.uid == 0 and is_machine(state)
    return not is_root and _fails_transfers(state, item, value)


def _fails_transfers(state: NodeState, item: Item, value: Value | None) -> bool:
    is_low = value is not None and not at_least(value, _LOCKED.least + 1)
    return item == "memlock" and is_low and state.network.infiniband is True


def _soft(state: LimitsState, item: Item) -> Value | None:
    pair = getattr(state.session, item, None)
    return None if pair is None else pair.soft


def cause_of(item: Item) -> str:
    """Return what happens where a limit is too low."""
    return RULES[f"limits.{item}"].why


def alone(item: Item, low: Collection[Kind]) -> str:
    """Return what a user without root can do where these limits are too low."""
    soft_only = RULES[f"limits.{item}"].without_root
    return _MEANWHILE.get(item, soft_only) if "hard" in low else soft_only


def too_low(
    state: LimitsState, wanted: LimitsWanted, item: Item, stops: bool = True
) -> Iterator[Fault]:
    """Yield the fault of a limit of the session that the files do not grant, either."""
    low = lacking(state, wanted, item)
    if not low or _granted(state, wanted, item):
        return  # the files grant it: that is limits.not-effective
    expected = limit(getattr(wanted, item), item)
    manual_fix = _manual_fix(state, wanted, item)
    where = f"{own_files(state, wanted)[-1]}{_line(state, wanted, item)}"
    if adds_pam_limits(state):
        where += f", and add '{' '.join(PAM_LINE.split())}' to {PAM_STACK}"
    yield Fault(
        subject=Limit(item),
        found=_session_value(state, item),
        wanted=expected,
        also=_decided(state, wanted, item),
        fix=manual_fix or f"raise {item} to {expected} in {where}",
        fixable=manual_fix is None,
        stops=stops,
        alone=alone(item, low),
    )


def _below(state: NodeState, item: Item, floor: Floor) -> Fault:
    """Return the fault of a limit that the inventory does not name, and that is below a floor."""
    asked = _wanted(item, floor.proposed)
    manual_fix = _manual_fix(state.limits, asked, item)
    written = limit(floor.proposed, item)
    deploy = f"add limits: {{{item}: {written}}} to the inventory, and the deploy sets it"
    stops = stops_a_job(state, item, _soft(state.limits, item))
    return Fault(
        subject=Limit(item),
        found=_session_value(state.limits, item),
        wanted=f"{floor.side}at least {limit(floor.least, item)} (proposed)",
        also="; ".join(filter(None, (_decided(state.limits, asked, item), floor.also))),
        fix=manual_fix or "",
        deploy="" if manual_fix else deploy,
        fixable=False,
        severity=None if stops else floor.severity,
        stops=stops,
        alone=alone(item, _lacking(state.limits, item, floor.least)),
    )


@check("limits.above-nr-open")
def above_ceiling(at: At[LimitsState, LimitsWanted]) -> Iterator[Fault]:
    if at.here.nr_open is None:
        return
    if above_nr_open(at.here, at.want):
        asked = str(at.want.nofile)
        yield _ceiling_fault("nofile in the inventory", asked, at.here.nr_open, False, stops=False)
    for line in at.here.files or ():
        if line.item == "nofile" and not grantable(at.here, line.value):
            if line.value == "unlimited" and at.here.pam is not None and at.here.pam.clamps_nofile:
                continue
            place = f"{line.path} line {line.line}"
            ours = line.path in OWN_FILES and is_known(at.here)
            fixable = ours and not above_nr_open(at.here, at.want)
            asked, stops = limit(line.value, "nofile"), line in _of_trainer(at.here)
            yield _ceiling_fault(place, asked, at.here.nr_open, fixable, stops=stops)


def _of_trainer(state: LimitsState) -> Collection[Line]:
    """Return the lines that decide about the logins of who trains, but of one who has logged in."""
    user = state.trainer or state.user
    if user is None or (user == state.user and state.session is not None):
        return ()
    own = state.model_copy(update={"user": user})
    return deciding(own, state.files or (), "nofile").values()


@check("limits.nofile")
def nofile(at: At) -> Iterator[Fault]:
    limits, expected = at.node.limits, at.wanted.limits
    if expected is not None and expected.nofile is not None:
        if not above_nr_open(limits, expected):
            yield from too_low(limits, expected, "nofile")
    elif trains(at.node, at.wanted) and "hard" in _lacking(limits, "nofile", _OPEN_FILES):
        floor = Floor(_OPEN_FILES, proposed_files(limits), "warning", "hard ")
        yield _below(at.node, "nofile", floor)


@check("limits.memlock")
def memlock(at: At) -> Iterator[Fault]:
    limits, expected = at.node.limits, at.wanted.limits
    if expected is not None and expected.memlock is not None:
        stops = stops_a_job(at.node, "memlock", _soft(limits, "memlock"))
        yield from too_low(limits, expected, "memlock", stops)
        return
    floor = _REGISTERED if at.node.network.infiniband else _LOCKED
    if trains(at.node, at.wanted) and _lacking(limits, "memlock", floor.least):
        yield _below(at.node, "memlock", floor)


def proposed_files(state: LimitsState) -> int:
    """Return the number of open files for the inventory: no more than the kernel grants."""
    return min(_PROPOSED_FILES, state.nr_open or _PROPOSED_FILES)


def _wanted(item: Item, value: Value) -> LimitsWanted:
    return LimitsWanted.model_validate({item: value})


def _lacking(state: LimitsState, item: Item, least: int) -> list[Kind]:
    return lacking(state, _wanted(item, least), item)


@check("limits.not-effective")
def not_effective(at: At) -> Iterator[Fault]:
    state, wanted = at.node.limits, at.wanted.limits
    if wanted is None:
        return
    for item in GROWING:
        if item == "nofile" and above_nr_open(state, wanted):
            continue
        low = lacking(state, wanted, item)
        if not low or not _granted(state, wanted, item):
            continue
        soft_only = low == ["soft"]
        cause, fix = _why_not_effective(state, soft_only, item, getattr(wanted, item))
        yield Fault(
            subject=Limit(item),
            found=_session_value(state, item),
            wanted=limit(getattr(wanted, item), item),
            cause=cause,
            fix=fix,
            fixable=adds_pam_limits(state)
            and not services.bound_to(state, item, getattr(wanted, item)),
            stops=stops_a_job(at.node, item, _soft(state, item)),
            alone=alone(item, low),
        )
    yield from _of_slurmd(at.node, wanted)


def _of_slurmd(node: NodeState, wanted: LimitsWanted) -> Iterator[Fault]:
    """Yield the limits that the jobs of slurmd cannot have, whatever a login has."""
    state = node.limits
    service = services.slurmd(state)
    for item, value in services.too_low(service, wanted).items() if service else ():
        if service is None or (item == "nofile" and above_nr_open(state, wanted)):
            continue
        place = services.drop_in(service.unit) if service.unit else ""
        line, is_written = services.later(service, item), services.waits(service, item, value)
        fix = f"write {services.setting(item, value)} in {place}; {services.WAITS}"
        if is_written:
            fix = f"{place} sets it; {services.WAITS}"
        elif not place:
            fix = "raise the limit where slurmd is started, and start it again"
        elif line is not None:
            fix = f"{quote(line.path)} line {line.line} sets the limit: raise or remove it"
        yield Fault(
            subject=Limit(item, f"{item} of slurmd"),
            found=f"hard {limit(getattr(service.limits, item).hard, item)}",
            wanted=limit(value, item),
            cause=f"the jobs of Slurm get at most the limits of slurmd, not those of a login: "
            f"{cause_of(item)}",
            fix=fix,
            fixable=bool(place) and not is_written and line is None and is_known(state),
            severity="warning" if is_written else None,
            stops=_fails_transfers(node, item, getattr(service.limits, item).hard),
            alone=_MEANWHILE.get(item, ""),
        )


def adds_pam_limits(state: LimitsState) -> bool:
    """Whether a deploy adds pam_limits to the PAM stack of sshd: no file of it loads the module.

    Not where sshd does not use PAM, nor where the stack is a link, which another program manages.
    """
    pam = state.pam
    return (
        pam is not None
        and pam.takes_line
        and pam.sshd_uses_pam is not False
        and (_pam_trouble(state) is not None)
    )


def _pam_trouble(state: LimitsState) -> tuple[str, str] | None:
    """Return cause and cure where sshd never reads the limits files; None if it does, or unknown.

    Silence about UsePAM is no trouble: it may stand where only root can read it.
    """
    pam = state.pam
    if pam is not None and not pam.has_stack:
        return (
            f"{PAM_STACK} is missing, so the limits are those of what starts the session",
            "raise the limit in what starts the session: ulimit, its systemd unit, or the "
            "container's --ulimit",
        )
    if pam is not None and pam.sshd_uses_pam is False:
        return (
            "sshd does not use PAM, so limits.conf and limits.d are not read",
            "set 'UsePAM yes' in /etc/ssh/sshd_config and reload sshd",
        )
    if pam is not None and not any(f"/etc/pam.d/{name}" in pam.files for name in _SSHD_PAM):
        return (
            "no PAM file of sshd loads pam_limits, so limits.conf and limits.d are not read",
            f"add '{' '.join(PAM_LINE.split())}' to {PAM_STACK}",
        )
    return None


def _why_not_effective(
    state: LimitsState, soft_only: bool, item: Item = "stack", wanted: Value | None = None
) -> tuple[str, str]:
    if state.pam is None:
        return (
            "maybe sshd does not use PAM: its configuration could not be read, see "
            "limits.unreadable",
            "check that sshd has 'UsePAM yes', and that one of its PAM files loads pam_limits",
        )
    trouble = _pam_trouble(state)
    if trouble is None and (soft_only or services.can_give(state, item, wanted)):
        return _LATER
    return trouble or below_sshd(state, item, wanted)


def below_sshd(state: LimitsState, item: Item, wanted: Value | None) -> tuple[str, str]:
    """Return cause and cure where sshd may not raise the hard limit that it was started with."""
    if wanted is not None and (of_sshd := services.sshd_line(state, item)):
        service, line = of_sshd
        return (
            f"{quote(line.path)} line {line.line} starts sshd with {services.KEYS[item]}="
            f"{line.value}, and sshd may not raise it",
            f"write {services.setting(item, wanted)} in {services.drop_in(service.unit)} below "
            f"[Service]; {services.WAITS}",
        )
    return (
        "sshd runs under a lower hard limit that it cannot raise: a container without "
        "CAP_SYS_RESOURCE, or Limit*= in its systemd unit",
        _BOUND,
    )


@check("limits.unconfirmed")
def unconfirmed(at: At[LimitsState, LimitsWanted]) -> Iterator[Fault]:
    waiting = {each.path for each in at.here.unsettled or ()}
    for path in OWN_FILES:
        if path not in waiting:
            continue
        yield Fault(
            subject=Path(path),
            found="written, and no new session has confirmed it",
            wanted="confirmed by a session that opened with it in place",
        )


def _ceiling_fault(place: str, asked: str, nr_open: int, fixable: bool, stops: bool) -> Fault:
    return Fault(
        subject=Limit("nofile", place),
        found=asked,
        wanted=f"at most {nr_open} (fs.nr_open)",
        fixable=fixable,
        stops=stops,
    )


@check("limits.stack-unlimited")
def stack_unlimited(at: At[LimitsState, LimitsWanted]) -> Iterator[Fault]:
    if not lacking(at.here, at.want, "stack") or at.want.stack is None:
        return
    expected = limit(at.want.stack, "stack")
    soft_line = deciding(at.here, at.here.files or (), "stack").get("soft")
    if soft_line is not None and soft_line.value != "unlimited":
        cause, fix = _why_not_effective(at.here, soft_only=True)
        fixable = adds_pam_limits(at.here)
        yield Fault(Limit("stack"), "unlimited", expected, cause, fix, fixable=fixable)
        return
    manual_fix = _manual_fix(at.here, at.want, "stack")
    yield Fault(
        subject=Limit("stack"),
        found="unlimited",
        wanted=expected,
        also=_decided(at.here, at.want, "stack"),
        fix=manual_fix
        or f"set the soft stack limit to {expected} in "
        + own_files(at.here, at.want)[-1]
        + _line(at.here, at.want, "stack"),
        fixable=manual_fix is None,
    )


_NAMED = 3


@check("limits.line-misread")
def line_misread(at: At[LimitsState, LimitsWanted | None]) -> Iterator[Fault]:
    for path, lines in groupby(at.here.misread or (), key=lambda each: each.path):
        wrong = list(lines)
        named = [f"line {each.line} ({each.text}): {each.why}" for each in wrong[:_NAMED]]
        more = [f"{len(wrong) - _NAMED} more"] if wrong[_NAMED:] else []
        yield Fault(
            subject=Path(path),
            found="; ".join([*named, *more]),
            wanted="lines of <domain> <type> <item> <value>, a number as the value",
            fix=f"correct line {', '.join(str(each.line) for each in wrong[:_NAMED])} of {path}",
        )
