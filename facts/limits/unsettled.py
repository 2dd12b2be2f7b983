"""What a node undoes by itself unless a new session confirms it, left by a run cut off."""

from __future__ import annotations

import re
from collections.abc import Collection

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import assigned, shell

# Records, for root alone: see deploy/files/pending.sh.
FOLDER = "/var/lib/gpu-node/pending"
_RECORDS = shell("limits/unsettled")
_SUM = re.compile(r"[0-9a-f]{64}")
# The files that are replaced so, beside the authorized_keys of an account.
FILES = frozenset(
    {
        "/etc/security/limits.d/99-gpu-node.conf",
        "/etc/ssh/sshd_config",
        "/etc/ssh/sshd_config.d/00-gpu-node.conf",
    }
)
_KEYS = "/.ssh/authorized_keys"
# One of each file and of a few accounts; more are no work of ours, and each takes its time.
MOST = 12
_USER = re.compile(r"[^\s:/-][^\s:/]{0,255}")


class Waiting(State):
    """A replaced file that waits; `user` is whose home it is in, `after` the sha256 as written."""

    user: str
    path: str
    after: str


def listing(folder: str = FOLDER) -> str:
    """Return sh that prints the records."""
    return assigned(folder=folder) + _RECORDS


SECTION = Section("limits.unsettled", listing(), root=True)


def parse(text: str, files: Collection[str] = FILES) -> tuple[Waiting, ...]:
    """Parse `RECORD USER PATH SUM`, with tabs, a line for each; `files` are those of the system.

    Of one file there may be several, of runs side by side: they are settled together.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MOST:
        raise Unreadable(
            f"{len(lines)} records of unconfirmed changes, more than {MOST}: in "
            f"{FOLDER} remove the files that gpu-node did not write"
        )
    return tuple(dict.fromkeys(_waiting(line, files) for line in lines))


def _waiting(line: str, files: Collection[str]) -> Waiting:
    _, user, path, after = [*line.split("\t"), "", "", ""][:4]
    in_home = path.startswith("/") and path.endswith(_KEYS) and "/../" not in path
    is_ours = (in_home and _USER.fullmatch(user or "root")) or (not user and path in files)
    if not is_ours or not _SUM.fullmatch(after):
        raise Unreadable(
            f"gpu-node did not write this record: {line[:160]!r}; remove it from {FOLDER}"
        )
    return Waiting(user=user, path=path, after=after)
