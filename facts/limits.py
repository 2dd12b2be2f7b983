"""Limits: what a fresh session has, the files that should grant it, and the kernel's ceiling."""

from __future__ import annotations

from typing import Literal, cast

from facts.area import AreaFact, State
from facts.probe import Readings, Section, Unreadable

CONF = "/etc/security/limits.conf"
CONF_D = "/etc/security/limits.d"

_FILES = """
for f in /etc/security/limits.conf /etc/security/limits.d/*.conf; do
  [ -f "$f" ] || continue
  awk -v f="$f" '!/^[[:space:]]*(#|$)/ { print f ":" NR ":" $0 }' "$f" || exit 1
done
"""
_PAM = r"""
[ ! -d /etc/pam.d ] || grep -l '^[^#]*pam_limits' /etc/pam.d/* || :
[ -r /etc/ssh/sshd_config ] || exit 0
for f in /etc/ssh/sshd_config.d/*.conf /etc/ssh/sshd_config; do
  [ ! -r "$f" ] || awk 'tolower($1) == "usepam" { print "UsePAM " tolower($2) }' "$f"
done
"""

# The probe's connection is a session of its own, so its shell has what any new session gets.
SECTIONS = (
    Section("limits.session", "cat /proc/self/limits"),
    Section("limits.user", "id -un; id -Gn"),
    Section("limits.nr-open", "cat /proc/sys/fs/nr_open"),
    Section("limits.files", _FILES),
    Section("limits.pam", _PAM),
)

Limit = int | Literal["unlimited"]
Item = Literal["nofile", "memlock", "stack"]

# /proc/PID/limits names (fs/proc/base.c) of the limits we ask for.
_KERNEL_NAMES: dict[Item, str] = {
    "nofile": "Max open files",
    "memlock": "Max locked memory",
    "stack": "Max stack size",
}
# limits.conf(5) counts memlock and stack in KiB; the kernel counts bytes.
UNITS: dict[Item, int] = {"nofile": 1, "memlock": 1024, "stack": 1024}


class Pair(State):
    """A soft and a hard limit: a number (bytes for memlock and stack) or "unlimited"."""

    soft: Limit
    hard: Limit


class Session(State):
    """The limits a fresh session of the SSH user has."""

    nofile: Pair
    memlock: Pair
    stack: Pair


class User(State):
    """Whom the limits were asked for."""

    name: str
    groups: tuple[str, ...]


class Line(State):
    """A line that sets a limit: `kind` is soft, hard or -, `value` in the kernel's unit."""

    path: str
    line: int
    domain: str
    kind: str
    item: Item
    value: Limit


class Pam(State):
    """The PAM files that load pam_limits, and whether sshd asks PAM at all (None: not said)."""

    files: tuple[str, ...]
    sshd_uses_pam: bool | None


class LimitsState(State):
    """Everything about resource limits that a rule asks for."""

    session: Session | None
    user: User | None
    nr_open: int | None
    files: tuple[Line, ...] | None
    pam: Pam | None


def parse_session(text: str) -> Session:
    """Parse /proc/self/limits: name, soft, hard, unit in columns."""
    pairs = {item: _pair(text, name) for item, name in _KERNEL_NAMES.items()}
    return Session(nofile=pairs["nofile"], memlock=pairs["memlock"], stack=pairs["stack"])


def _pair(text: str, name: str) -> Pair:
    for line in text.splitlines():
        if line.startswith(name):
            soft, hard = line[len(name) :].split()[:2]
            return Pair(soft=_limit(soft), hard=_limit(hard))
    raise Unreadable(f"no line {name!r}")


def _limit(text: str) -> Limit:
    return "unlimited" if text == "unlimited" else int(text)


def parse_user(text: str) -> User:
    """Parse `id -un; id -Gn`."""
    name, *groups = text.split()
    return User(name=name, groups=tuple(groups))


def parse_files(text: str) -> tuple[Line, ...]:
    """Parse `PATH:LINE:content` in pam_limits' order; items that no rule judges are left out."""
    lines = (_line(text_line) for text_line in text.splitlines() if text_line.strip())
    return tuple(line for line in lines if line is not None)


def _line(text: str) -> Line | None:
    path, number, content = text.split(":", 2)
    # As pam_limits.c reads a line: capitals do not count, nor does what follows the value.
    fields = content.split("#")[0].split()[:4]
    if len(fields) < 4 or fields[2].lower() not in UNITS:
        return None
    domain, kind, item, value = fields[0], *(field.lower() for field in fields[1:])
    limit = _conf_value(value, UNITS[cast(Item, item)])
    if limit is None:
        return None
    return Line.model_validate(
        {"path": path, "line": int(number), "domain": domain, "kind": kind, "item": item}
        | {"value": limit}
    )


def _conf_value(value: str, unit: int) -> Limit | None:
    """Return a limits.conf(5) value in the kernel's unit; None for what pam_limits skips, too."""
    if value in ("unlimited", "infinity", "-1", "-"):
        return "unlimited"
    return int(value) * unit if value.isdecimal() else None


def parse_pam(text: str) -> Pam:
    """Parse file names and `UsePAM yes|no` lines; sshd takes the first one it reads."""
    lines = text.splitlines()
    said = [line.split()[1] for line in lines if line.startswith("UsePAM ")]
    files = tuple(line for line in lines if line.startswith("/"))
    return Pam(files=files, sshd_uses_pam=said[0].strip('"') == "yes" if said else None)


def parse(readings: Readings) -> LimitsState:
    """Return the area's state from the probe's answers."""
    return LimitsState(
        session=readings.take("limits.session", parse_session),
        user=readings.take("limits.user", parse_user),
        nr_open=readings.take("limits.nr-open", lambda text: int(text)),
        files=readings.take("limits.files", parse_files),
        pam=readings.take("limits.pam", parse_pam),
    )


class ResourceLimits(AreaFact):
    """Returns `LimitsState` as a dict: {"session": {"nofile": {"soft": 1024, ...}}, ...}."""

    sections = SECTIONS
    parse = staticmethod(parse)
