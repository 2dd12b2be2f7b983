"""Unconfirmed changes of an interrupted run: the node undoes them unless they are confirmed."""

import re
from collections.abc import Collection
from typing import Any

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import assigned, shell

# Records that only root can read: see deploy/files/pending.sh. `about` is the line of replace.sh.
FOLDER = "/var/lib/gpu-node/pending"
_RECORDS = shell("limits/unsettled")
_SUM = re.compile(r"[0-9a-f]{64}")
# The files that are replaced in this way, besides the authorized_keys of an account.
FILES = frozenset(
    {
        "/etc/security/limits.d/99-gpu-node.conf",
        "/etc/security/limits.d/zzzz-gpu-node.conf",
        "/etc/pam.d/sshd",
        "/etc/ssh/sshd_config",
        "/etc/ssh/sshd_config.d/00-gpu-node.conf",
    }
)
_KEYS = "/.ssh/authorized_keys"
# One for each file, and for a few accounts; more are not ours, and settling each takes time.
MOST = 12
_USER = re.compile(r"[^\s:/-][^\s:/]{0,255}")


class Waiting(State):
    """A replaced, unconfirmed file; `user` owns its home, `after` is the sha256 as written."""

    user: str
    path: str
    after: str


def listing(folder: str = FOLDER) -> str:
    """Return sh that prints the records."""
    return assigned(folder=folder) + _RECORDS


SECTION = Section("limits.unsettled", listing(), root=True, light=True)


def parse(text: str, files: Collection[str] = FILES) -> tuple[Waiting, ...]:
    """Parse lines `BEFORE AFTER MODE OWNER USER PATH`; `files` are those of the system.

    One file may have several records, of parallel runs: they are settled together.
    """
    lines = [line for line in lines_of(text) if line.strip()]
    if len(lines) > MOST:
        raise Unreadable(
            f"{len(lines)} records of unconfirmed changes, more than {MOST}: in "
            f"{FOLDER} remove the files that gpu-node did not write"
        )
    return tuple(dict.fromkeys(_waiting(line, files) for line in lines))


def _waiting(line: str, files: Collection[str]) -> Waiting:
    _, after, _, _, user, path = [*line.split(" ", 5), "", "", "", "", ""][:6]
    in_home = path.startswith("/") and path.endswith(_KEYS) and "/../" not in path
    is_ours = (in_home and _USER.fullmatch(user)) or (user == "root" and path in files)
    if not is_ours or not _SUM.fullmatch(after):
        raise Unreadable(
            f"gpu-node did not write this record: {line[:160]!r}; remove it from {FOLDER}"
        )
    return Waiting(user="" if user == "root" else user, path=path, after=after)


def waits(limits: dict[str, Any], path: str) -> bool:
    """Whether a change of a file may wait, by a node's limits; unknown is no reason to skip it."""
    waiting = limits.get("unsettled")
    return waiting is None or any(each["path"] == path for each in waiting)
