"""Limit rules: open files, locked memory and stack as a fresh session has them, and why it does."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from drift.pam_limits import (
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
from drift.quantity import at_least, limit
from drift.rules.rule import Fault, rule
from facts.limits import OWN_FILE, UNITS, Item, LimitsState, Line
from inventories.schema import LimitsWanted

# PAM files that sshd reads itself or by the usual includes (Debian, Ubuntu; Red Hat).
_SSHD_PAM = ("sshd", "common-session", "password-auth", "system-auth")

_CAUSES: dict[Item, str] = {
    "nofile": "tokenising with many processes and NCCL's sockets end in "
    "'OSError: [Errno 24] Too many open files'; NCCL raises itself to the hard limit only",
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
    lines, wish = deciding(found, found.files or (), item), getattr(wanted, item)
    too_much = any(
        line.path == OWN_FILE and line.value != wish and at_least(line.value, wish)
        for line in lines.values()
    )
    return not too_much and all(
        kind in lines and at_least(lines[kind].value, wish) for kind in lacking(found, wanted, item)
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


def _by_hand(found: LimitsState, wanted: LimitsWanted, item: Item) -> str | None:
    """Return what a person has to do before a file of ours can help; None if it helps as it is."""
    if not is_known(found):
        return "find out first what could not be read, see limits.unreadable"
    line = exemption(found.user, found.files or ()) if found.user else None
    if line is not None:
        return (
            f"{quote(line.path)} line {line.line} takes {line.domain} out of all limits: remove it"
        )
    line = _overruling(found, wanted, item)
    if line is not None:
        return f"{quote(line.path)} line {line.line} decides: raise or remove it"
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


def _too_low(found: LimitsState, wanted: LimitsWanted, item: Item) -> Iterator[Fault]:
    if not lacking(found, wanted, item) or _granted(found, wanted, item):
        return  # the files grant it: that is limits.not-effective
    wish = limit(getattr(wanted, item), item != "nofile")
    by_hand = _by_hand(found, wanted, item)
    yield Fault(
        subject=item,
        found=_session_value(found, item),
        wanted=wish,
        cause=f"{_decided(found, wanted, item)}{_CAUSES[item]}",
        fix=by_hand or f"raise {item} to {wish} in {OWN_FILE}",
        fixable=by_hand is None,
    )


@rule("limits.nofile", "error")
def nofile(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """A fresh session may open fewer files than wanted."""
    if not above_nr_open(found, wanted):
        yield from _too_low(found, wanted, "nofile")


@rule("limits.memlock", "error")
def memlock(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """A fresh session may lock less memory than wanted."""
    yield from _too_low(found, wanted, "memlock")


@rule("limits.not-effective", "error")
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
            subject=item,
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
            "sshd does not ask PAM, so limits.conf and limits.d are not read",
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
            "sshd may not ask PAM at all: its configuration could not be read, see "
            "limits.unreadable",
            "find out whether sshd has 'UsePAM yes' and a PAM file of it loads pam_limits",
        )
    trouble = _pam_trouble(found)
    if trouble is None and soft_only:
        return (
            "the hard limit would allow it: something lowers the soft one after the login, such as "
            "ulimit in ~/.bashrc or in /etc/profile.d",
            "take that ulimit out of the start files of the shell",
        )
    return trouble or (
        "sshd runs under a lower hard limit that it may not raise: a container without "
        "CAP_SYS_RESOURCE, or Limit*= in its systemd unit",
        "raise the limit where sshd is started: the container's --ulimit, or its systemd unit",
    )


@rule("limits.unconfirmed", "error")
def unconfirmed(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """Our limits file was written by a run that ended before a new session had confirmed it."""
    if found.pending:
        yield Fault(
            subject=OWN_FILE,
            found="written, and no new session has confirmed it",
            wanted="confirmed by a session that opened with it in place",
            cause="the run that wrote it was cut off; within a minute of the writing the node "
            "puts back what was there before, and the limits go with it",
            fix="open a new session, and keep the file if it opens",
        )


@rule("limits.above-nr-open", "error")
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
            subject = f"{line.path} line {line.line}"
            ours = line.path == OWN_FILE and is_known(found)
            fixable = ours and not above_nr_open(found, wanted)
            yield _ceiling_fault(subject, limit(line.value, False), found.nr_open, fixable)


def _ceiling_fault(subject: str, asked: str, nr_open: int, fixable: bool) -> Fault:
    return Fault(
        subject=subject,
        found=asked,
        wanted=f"at most {nr_open} (fs.nr_open)",
        cause="the kernel grants nobody more than fs.nr_open; pam_limits then fails, and on many "
        "systems refuses the login",
        fix="lower it, or raise fs.nr_open with sysctl first",
        fixable=fixable,
    )


@rule("limits.stack-unlimited", "warning")
def stack_unlimited(found: LimitsState, wanted: LimitsWanted) -> Iterator[Fault]:
    """A fresh session has an unlimited stack, a documented crash hazard of NCCL before 2.28."""
    if not lacking(found, wanted, "stack") or wanted.stack is None:
        return
    said = deciding(found, found.files or (), "stack").get("soft")
    if said is not None and said.value != "unlimited":
        cause, fix = _why_not_effective(found, soft_only=True)
        yield Fault("stack", "unlimited", limit(wanted.stack, True), cause, fix, fixable=False)
        return
    by_hand = _by_hand(found, wanted, "stack")
    yield Fault(
        subject="stack",
        found="unlimited",
        wanted=limit(wanted.stack, True),
        cause=f"{_decided(found, wanted, 'stack')}with 'ulimit -s unlimited' glibc gives NCCL's "
        "threads stacks of 2 MB, and they overflow (NCCL before 2.28)",
        fix=by_hand or f"set the soft stack limit to {limit(wanted.stack, True)} in {OWN_FILE}",
        fixable=by_hand is None,
    )
