"""Limits: what a new session has, the files that should set them, and the kernel's maximum."""

import re
from typing import Literal, cast

from gpu_node.facts.limits import confirmed, unsettled
from gpu_node.facts.limits import services as daemons
from gpu_node.facts.limits.misread import Misread, parse_misread
from gpu_node.facts.limits.session import UNITS as UNITS
from gpu_node.facts.limits.session import Item as Item
from gpu_node.facts.limits.session import Limit as Limit
from gpu_node.facts.limits.session import Pair as Pair
from gpu_node.facts.limits.session import Session as Session
from gpu_node.facts.limits.session import parse_session
from gpu_node.facts.limits.unsettled import Waiting
from gpu_node.facts.probe.base import AreaFact, Parsers, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import Columns
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell

CONF = "/etc/security/limits.conf"


# The probe's connection is a separate session, so its shell has what any new session gets.
SECTIONS = (
    Section("limits.session", "cat /proc/self/limits", light=True),
    Section("limits.user", shell("limits/user"), light=True),
    # Only root may read sshd_config on the rpm family, and each of these files on hardened systems.
    Section("limits.files", shell("limits/files"), root=True, light=True),
    Section("limits.pam", shell("limits/pam", stack=confirmed.PAM_STACK), root=True, light=True),
    unsettled.SECTION,
    Section("limits.tasks", shell("limits/tasks"), light=True),
    daemons.SECTION,
)


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections, and one about the training user who is not the SSH user."""
    if not request.trains_apart:
        return SECTIONS
    who = assigned(trainer=request.user) + shell("limits/user")
    return (*SECTIONS, Section("limits.trainer", who))


# The item of a line that exempts its user or group from all limits.
EXEMPT: Literal["exempt"] = "exempt"


class Ceiling(State):
    """A limit on processes and threads besides the session's own: kernel.pid_max, a pids.max."""

    place: str
    value: int


class User(State):
    """The user whose limits were read; `gids` has the primary group first, `groups` their names."""

    name: str
    uid: int
    gids: tuple[int, ...]
    groups: tuple[str, ...]


class Line(State):
    """A line that sets a limit: `kind` is soft, hard or -, `value` in the kernel's unit."""

    path: str
    line: int
    domain: str
    kind: str
    item: Item | Literal["exempt"]
    value: Limit


class Pam(State):
    """The PAM files that load pam_limits, and whether sshd uses PAM at all (None: no setting).

    `spares_root`: lines for groups and the wildcard do not apply to root. `clamps_nofile`:
    "unlimited" open files become fs.nr_open; with an older pam_limits the login fails. A deploy
    may add a line to the stack of sshd (`takes_line`): a regular file, and the module is installed.
    `has_stack`: sshd's file is there at all.
    """

    files: tuple[str, ...]
    sshd_uses_pam: bool | None
    spares_root: bool
    clamps_nofile: bool
    takes_line: bool = False
    has_stack: bool = True


class LimitsState(State):
    """Everything about resource limits that rules use."""

    session: Session | None
    user: User | None
    files: tuple[Line, ...] | None
    pam: Pam | None
    # Changes of any file that the node undoes unless they are confirmed.
    unsettled: tuple[Waiting, ...] | None
    nr_open: int | None = None
    tasks: tuple[Ceiling, ...] | None = None
    services: tuple[daemons.Service, ...] | None = None
    # The training user, who is not the SSH user.
    trainer: User | None = None
    # Lines of the files that pam_limits skips, or reads otherwise than they are meant.
    misread: tuple[Misread, ...] | None = ()


def parse_user(text: str) -> User:
    """Parse `UID name`, then `GID name` for each group, the primary one first."""
    (uid, name), *groups = (line.split(" ", 1) for line in lines_of(text))
    names = tuple(name for _, name in groups if name)
    return User(name=name, uid=int(uid), gids=tuple(int(gid) for gid, _ in groups), groups=names)


def parse_files(text: str) -> tuple[Line, ...]:
    """Parse `PATH:LINE:content` in pam_limits' order; items that no rule judges are left out."""
    lines = (_line(text_line) for text_line in lines_of(text) if text_line.strip())
    return tuple(line for line in lines if line is not None)


def _line(text: str) -> Line | None:
    path, place, content = text.split(":", 2)
    # As pam_limits.c reads a line: case does not matter, and text after the value is ignored.
    fields = content.split("#")[0].split()[:4]
    if len(fields) == 2 and fields[1].startswith("-"):
        fields += [EXEMPT, "unlimited"]
    if len(fields) < 4 or fields[2].lower() not in (*UNITS, EXEMPT):
        return None
    domain, kind, item, value = fields[0], *(field.lower() for field in fields[1:])
    limit = _conf_value(value, UNITS.get(cast(Item, item), 1))
    if limit is None:
        return None
    return Line.model_validate(
        {"path": path, "line": int(place), "domain": domain, "kind": kind, "item": item}
        | {"value": limit}
    )


def _conf_value(value: str, unit: int) -> Limit | None:
    """Return a limits.conf(5) value in the kernel's unit; None for what pam_limits also skips."""
    if value in ("unlimited", "infinity", "-1", "-"):
        return "unlimited"
    digits = re.match(r"[0-9]+", value)  # strtol reads 4096k as 4096
    return int(digits[0]) * unit if digits else None


def parse_pam(text: str) -> Pam:
    """Parse file names, `UsePAM yes|no` lines (sshd uses the first), and its properties."""
    lines = lines_of(text)
    use_pam = [line.split()[1] for line in lines if line.startswith("UsePAM ")]
    files = tuple(line for line in lines if line.startswith("/"))
    return Pam(
        files=files,
        sshd_uses_pam=use_pam[0].strip('"') == "yes" if use_pam else None,
        spares_root="spares-root" in lines,
        clamps_nofile="clamps-nofile" in lines,
        takes_line="takes-line" in lines,
        has_stack="no-stack" not in lines,
    )


PARSERS: Parsers = {
    "limits.files": ("files misread", lambda text: (parse_files(text), parse_misread(text))),
    "limits.session": ("session", parse_session),
    "limits.user": ("user", parse_user),
    "limits.pam": ("pam", parse_pam),
    "limits.unsettled": ("unsettled", unsettled.parse),
    "limits.tasks": ("tasks", Columns(Ceiling, "value place...", " ")),
    "limits.services": ("services", daemons.parse),
    "limits.trainer": ("trainer", parse_user),
}


class ResourceLimits(AreaFact):
    """Returns `LimitsState` as a dict: {"session": {"nofile": {"soft": 1024, ...}}, ...}."""

    sections_for = staticmethod(sections)
    state = LimitsState
    parsers = PARSERS
