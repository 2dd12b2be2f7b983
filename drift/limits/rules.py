"""Limit rules: open files, locked memory and stack as a fresh session has them, and why it does."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.rule import Fault, on_subject, rule
from gpu_node.drift.engine.subject import Limit, Path
from gpu_node.drift.limits.pam_limits import (
    above_nr_open,
    deciding,
    domains,
    exemption,
    grantable,
    is_known,
    lacking,
    own_lines,
    with_own,
)
from gpu_node.drift.units import at_least, limit
from gpu_node.facts.limits.state import OWN_FILE, UNITS, Item, LimitsState, Line
from gpu_node.inventories.schema import LimitsWanted

# PAM files that sshd reads itself or by the usual includes (Debian, Ubuntu; Red Hat).
_SSHD_PAM = ("sshd", "common-session", "password-auth", "system-auth")

_CAUSES: dict[Item, str] = {
    "nofile": "tokenising with many processes and NCCL's sockets end in "
    "'OSError: [Errno 24] Too many open files'; NCCL raises its limit only to the hard limit",
    "memlock": "InfiniBand memory cannot be registered: 'Call to ibv_create_qp failed' or "
    "'Call to ibv_reg_mr failed'",
}


def _session_value(found: LimitsState, item: Item) -> str:
    if found.session is None:
        return "unreadable"
    pair, in_bytes = getattr(found.session, item), item != "nofile"
    return f"soft {limit(pair.soft, in_bytes)}, hard {limit(pair.hard, in_bytes)}"


def _granted(found: LimitsState, wanted: LimitsWanted, item: Item) -> bool:
    """Return whether the files grant all that the session lacks.

    A line of ours that asks for more than is wanted grants nothing: sshd may not give that much.
    """
    lines, expected = deciding(found, found.files or (), item), getattr(wanted, item)
    too_much = any(
        line.path == OWN_FILE and line.value != expected and at_least(line.value, expected)
        for line in lines.values()
    )
    return not too_much and all(
        kind in lines and at_least(lines[kind].value, expected)
        for kind in lacking(found, wanted, item)
    )


def _overruling(found: LimitsState, wanted: LimitsWanted, item: Item) -> Line | None:
    """Return the user's line that would still decide with our file in place, if there is one."""
    if found.user is None:
        return None
    lines = with_own(found, own_lines(found, wanted), domains(found.user))
    decided = deciding(found, lines, item)
    for kind in lacking(found, wanted, item):
        line = decided.get(kind)
        if line is not None and line.path != OWN_FILE and not _suffices(line, wanted, item):
            return line
    return None


def _suffices(line: Line, wanted: LimitsWanted, item: Item) -> bool:
    if item == "stack":
        return line.value != "unlimited"
    return at_least(line.value, getattr(wanted, item))


def _manual_fix(found: LimitsState, wanted: LimitsWanted, item: Item) -> str | None:
    """Return what a person has to do before a file of ours can help; None if it helps as it is."""
    if not is_known(found):
        return "first repair what could not be read, see limits.unreadable"
    line = exemption(found.user, found.files or ()) if found.user else None
    if line is not None:
        return (
            f"{quote(line.path)} line {line.line} exempts {line.domain} from all limits: remove it"
        )
    line = _overruling(found, wanted, item)
    if line is not None:
        return f"{quote(line.path)} line {line.line} sets the limit: raise or remove it"
    trouble = _pam_trouble(found)
    return trouble[1] if trouble else None


def _decided(found: LimitsState, wanted: LimitsWanted, item: Item) -> str:
    """Return which lines of the files set what the session lacks, in front of a cause."""
    now = deciding(found, found.files or (), item)
    lines = [now[kind] for kind in lacking(found, wanted, item) if kind in now]
    low = {f"{quote(each.path)} line {each.line}": each for each in lines}
    named = [
        f"{where} ({each.domain} {each.kind} {item} {_written(each, item)})"
        for where, each in low.items()
        if not _suffices(each, wanted, item)
    ]
    return f"{' and '.join(named)} decide{'' if named[1:] else 's'} now; " if named else ""


def _written(line: Line, item: Item) -> str:
    """Return a line's value as limits.conf(5) counts it."""
    return str(line.value if line.value == "unlimited" else int(line.value) // UNITS[item])


def _line(found: LimitsState, wanted: LimitsWanted, item: Item) -> str:
    """Return the line for an SSH user who is not root, to ask the administrator for."""
    if found.user is None or found.user.uid == 0 or " " in found.user.name:
        return ""
    kinds = ["soft"] if item == "stack" else lacking(found, wanted, item)
    expected = getattr(wanted, item)
    value = expected if expected == "unlimited" else int(expected) // UNITS[item]
    return f": `{found.user.name} {'-' if kinds[1:] else kinds[0]} {item} {value}`"


def _too_low(found: LimitsState, wanted: LimitsWanted, item: Item) -> Iterator[Fault]:
    if not lacking(found, wanted, item) or _granted(found, wanted, item):
        return  # the files grant it: that is limits.not-effective
    expected = limit(getattr(wanted, item), item != "nofile")
    manual_fix = _manual_fix(found, wanted, item)
    yield Fault(
        subject=Limit(item),
        found=_session_value(found, item),
        wanted=expected,
        cause=f"{_decided(found, wanted, item)}{_CAUSES[item]}",
        fix=manual_fix or f"raise {item} to {expected} in {OWN_FILE}{_line(found, wanted, item)}",
        fixable=manual_fix is None,
    )


@rule(
    "limits.above-nr-open",
    "error",
    step="limits",
    under="limits",
    why="The kernel grants at most fs.nr_open open files: pam_limits fails, and on many "
    "systems refuses the login.",
    manual="Lower the limit, or first raise fs.nr_open with sysctl.",
    repair="Rewrites the limits file of gpu-node in /etc/security/limits.d.",
    alone="Keep one session open: new logins may fail.",
)
def above_ceiling(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """More open files are asked for than fs.nr_open allows; PAM may then refuse every login."""
    if found.nr_open is None:
        return
    if above_nr_open(found, wanted):
        yield _ceiling_fault("nofile in the inventory", str(wanted.nofile), found.nr_open, False)
    for line in found.files or ():
        if line.item == "nofile" and not grantable(found, line.value):
            if line.value == "unlimited" and found.pam is not None and found.pam.clamps_nofile:
                continue
            place = f"{line.path} line {line.line}"
            ours = line.path == OWN_FILE and is_known(found)
            fixable = ours and not above_nr_open(found, wanted)
            yield _ceiling_fault(place, limit(line.value, False), found.nr_open, fixable)


@rule(
    "limits.nofile",
    "error",
    step="limits",
    because_of=(on_subject(above_ceiling),),
    under="limits",
    why="Tokenising with many processes, and NCCL's sockets, end with 'Too many open files'.",
    manual="Raise nofile in a file in /etc/security/limits.d, then log in again.",
    repair="Writes a file in /etc/security/limits.d, and confirms it in a new session.",
    alone="Run ulimit -n $(ulimit -Hn) before the job: this raises the soft limit to the "
    "hard limit.",
)
def nofile(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """A fresh session may open fewer files than wanted."""
    if not above_nr_open(found, wanted):
        yield from _too_low(found, wanted, "nofile")


@rule(
    "limits.memlock",
    "error",
    step="limits",
    under="limits",
    why="InfiniBand memory cannot be registered: 'Call to ibv_create_qp failed'.",
    manual="Raise memlock in a file in /etc/security/limits.d, then log in again.",
    repair="Writes a file in /etc/security/limits.d, and confirms it in a new session.",
    alone="Run ulimit -l $(ulimit -Hl) before the job. If the hard limit is too low, set "
    "NCCL_IB_DISABLE=1, which is slow.",
)
def memlock(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """A fresh session may lock less memory than wanted."""
    yield from _too_low(found, wanted, "memlock")


@rule(
    "limits.not-effective",
    "error",
    because_of=(on_subject(above_ceiling),),
    under="limits",
    why="The files grant the limit, but sshd or a start file of the shell sets another one.",
    manual="Enable PAM in sshd, load pam_limits, or remove the ulimit from the start file.",
    alone="Raise the soft limits to the hard limits before the job: ulimit -n $(ulimit "
    "-Hn), ulimit -l $(ulimit -Hl).",
)
def not_effective(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """The limit files grant what is wanted, and a fresh session does not have it."""
    items: tuple[Item, ...] = ("nofile", "memlock")
    for item in items:
        if item == "nofile" and above_nr_open(found, wanted):
            continue
        if not lacking(found, wanted, item) or not _granted(found, wanted, item):
            continue
        cause, fix = _why_not_effective(found, lacking(found, wanted, item) == ["soft"])
        yield Fault(
            subject=Limit(item),
            found=_session_value(found, item),
            wanted=limit(getattr(wanted, item), item != "nofile"),
            cause=cause,
            fix=fix,
            fixable=False,
        )


def _pam_trouble(found: LimitsState) -> tuple[str, str] | None:
    """Return cause and cure where sshd never reads the limits files; None if it does, or unknown.

    Silence about UsePAM is no trouble: it may stand where only root can read it.
    """
    pam = found.pam
    if pam is not None and pam.sshd_uses_pam is False:
        return (
            "sshd does not use PAM, so limits.conf and limits.d are not read",
            "set 'UsePAM yes' in /etc/ssh/sshd_config and reload sshd",
        )
    if pam is not None and not any(f"/etc/pam.d/{name}" in pam.files for name in _SSHD_PAM):
        return (
            "no PAM file of sshd loads pam_limits, so limits.conf and limits.d are not read",
            "add 'session required pam_limits.so' to /etc/pam.d/sshd",
        )
    return None


def _why_not_effective(found: LimitsState, soft_only: bool) -> tuple[str, str]:
    if found.pam is None:
        return (
            "maybe sshd does not use PAM: its configuration could not be read, see "
            "limits.unreadable",
            "check that sshd has 'UsePAM yes', and that one of its PAM files loads pam_limits",
        )
    trouble = _pam_trouble(found)
    if trouble is None and soft_only:
        return (
            "the hard limit would allow it: something lowers the soft one after the login, such as "
            "ulimit in ~/.bashrc or in /etc/profile.d",
            "remove that ulimit from the start files of the shell",
        )
    return trouble or (
        "sshd runs under a lower hard limit that it cannot raise: a container without "
        "CAP_SYS_RESOURCE, or Limit*= in its systemd unit",
        "raise the limit where sshd is started: the container's --ulimit, or its systemd unit",
    )


@rule(
    "limits.unconfirmed",
    "error",
    step="limits",
    under="limits",
    why="The run that wrote the file was interrupted: the node soon restores the file from before.",
    manual="Open a new session, and keep the file if the session opens.",
    repair="Confirms the file after a new session has opened.",
)
def unconfirmed(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """Our limits file was written by a run that ended before a new session had confirmed it."""
    if found.pending:
        yield Fault(
            subject=Path(OWN_FILE),
            found="written, and no new session has confirmed it",
            wanted="confirmed by a session that opened with it in place",
            cause="the run that wrote it was interrupted: within a minute "
            "the node restores the earlier file, without these limits",
            fix="open a new session, and keep the file if it opens",
        )


def _ceiling_fault(place: str, asked: str, nr_open: int, fixable: bool) -> Fault:
    return Fault(
        subject=Limit("nofile", place),
        found=asked,
        wanted=f"at most {nr_open} (fs.nr_open)",
        cause="the kernel grants at most fs.nr_open; pam_limits then fails, and on many "
        "systems refuses the login",
        fix="lower it, or raise fs.nr_open with sysctl first",
        fixable=fixable,
    )


@rule(
    "limits.stack-unlimited",
    "warning",
    step="limits",
    under="limits",
    why="With an unlimited stack glibc gives NCCL's threads stacks of 2 MB, and they "
    "overflow (NCCL before 2.28).",
    manual="Set a soft stack limit in /etc/security/limits.d.",
    repair="Writes a file in /etc/security/limits.d, and confirms it in a new session.",
    alone="Run ulimit -s 8192 before the job.",
)
def stack_unlimited(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """A fresh session has an unlimited stack, a documented crash hazard of NCCL before 2.28."""
    if not lacking(found, wanted, "stack") or wanted.stack is None:
        return
    soft_line = deciding(found, found.files or (), "stack").get("soft")
    if soft_line is not None and soft_line.value != "unlimited":
        cause, fix = _why_not_effective(found, soft_only=True)
        yield Fault(
            Limit("stack"), "unlimited", limit(wanted.stack, True), cause, fix, fixable=False
        )
        return
    manual_fix = _manual_fix(found, wanted, "stack")
    yield Fault(
        subject=Limit("stack"),
        found="unlimited",
        wanted=limit(wanted.stack, True),
        cause=f"{_decided(found, wanted, 'stack')}with 'ulimit -s unlimited' glibc gives NCCL's "
        "threads stacks of 2 MB, and they overflow (NCCL before 2.28)",
        fix=manual_fix
        or f"set the soft stack limit to {limit(wanted.stack, True)} in {OWN_FILE}"
        + _line(found, wanted, "stack"),
        fixable=manual_fix is None,
    )
