"""Limit rules: open files, locked memory and stack as a fresh session has them, and why it does."""

from __future__ import annotations

from collections.abc import Iterator

from drift.pam_limits import (
    OWN_FILE,
    Kind,
    above_nr_open,
    domains,
    grantable,
    lacking,
    own_lines,
    winner,
    with_own,
)
from drift.quantity import at_least, limit
from drift.rules.rule import Fault, rule
from facts.limits import Item, LimitsState, Line
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


def _granted(found: LimitsState, lines: list[Line], wanted: LimitsWanted, item: Item) -> list[Kind]:
    """Return which of the lacking limits `lines` grant all the same."""
    if found.user is None:
        return []
    granted = []
    for kind in lacking(found, wanted, item):
        line = winner(lines, found.user, item, kind)
        if line is not None and at_least(line.value, getattr(wanted, item)):
            granted.append(kind)
    return granted


def _overruling(found: LimitsState, wanted: LimitsWanted, item: Item) -> Line | None:
    """Return the user's line that would still decide with our file in place, if there is one."""
    if found.user is None:
        return None
    lines = with_own(found, own_lines(found, wanted), domains(found.user))
    for kind in lacking(found, wanted, item):
        line = winner(lines, found.user, item, kind)
        if line is not None and line.path != OWN_FILE and not _suffices(line, wanted, item):
            return line
    return None


def _may_be_written(found: LimitsState, wanted: LimitsWanted, item: Item) -> bool:
    """Whether our file may say it: more open files than the unknown fs.nr_open could lock out."""
    return item != "nofile" or (wanted.nofile is not None and grantable(found, wanted.nofile))


def _suffices(line: Line, wanted: LimitsWanted, item: Item) -> bool:
    if item == "stack":
        return line.value != "unlimited"
    return at_least(line.value, getattr(wanted, item))


def _too_low(found: LimitsState, wanted: LimitsWanted, item: Item) -> Iterator[Fault]:
    lacks = lacking(found, wanted, item)
    if not lacks or len(_granted(found, list(found.files or ()), wanted, item)) == len(lacks):
        return  # the files grant it: that is limits.not-effective
    wish = limit(getattr(wanted, item), item != "nofile")
    line = _overruling(found, wanted, item)
    yield Fault(
        subject=item,
        found=_session_value(found, item),
        wanted=wish,
        cause=_CAUSES[item],
        fix=f"raise {item} to {wish} in {OWN_FILE}"
        if line is None
        else f"{line.path} line {line.line} decides: raise or remove it by hand",
        fixable=line is None and found.files is not None and _may_be_written(found, wanted, item),
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
    lines = list(found.files or ())
    items: tuple[Item, ...] = ("nofile", "memlock")
    for item in items:
        if item == "nofile" and above_nr_open(found, wanted):
            continue
        lacks = lacking(found, wanted, item)
        if not lacks or len(_granted(found, lines, wanted, item)) < len(lacks):
            continue
        cause, fix = _why_not_effective(found)
        yield Fault(
            subject=item,
            found=_session_value(found, item),
            wanted=limit(getattr(wanted, item), item != "nofile"),
            cause=cause,
            fix=fix,
            fixable=False,
        )


def _why_not_effective(found: LimitsState) -> tuple[str, str]:
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
    return (
        "sshd runs under a lower hard limit that it may not raise: a container without "
        "CAP_SYS_RESOURCE, or Limit*= in its systemd unit",
        "raise the limit where sshd is started: the container's --ulimit, or its systemd unit",
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
            subject = f"{line.path} line {line.line}"
            fixable = line.path == OWN_FILE and not above_nr_open(found, wanted)
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
    line = _overruling(found, wanted, "stack")
    said = winner(found.files or (), found.user, "stack", "soft") if found.user else None
    if said is not None and said.value != "unlimited":
        cause, fix = _why_not_effective(found)
        yield Fault("stack", "unlimited", limit(wanted.stack, True), cause, fix, fixable=False)
        return
    yield Fault(
        subject="stack",
        found="unlimited",
        wanted=limit(wanted.stack, True),
        cause="with 'ulimit -s unlimited' glibc gives NCCL's threads stacks of 2 MB, and they "
        "overflow (NCCL before 2.28)",
        fix=f"set the soft stack limit to {limit(wanted.stack, True)} in {OWN_FILE}"
        if line is None
        else f"{line.path} line {line.line} decides: change or remove it by hand",
        fixable=line is None,
    )
