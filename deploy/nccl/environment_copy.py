"""Copying a Python environment from one node to another: whole, to the same path, or not at all."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from pyinfra import logger
from pyinfra.api import Host, State, StringCommand

from deploy.arguments import of_operation
from deploy.copying import IDLE_SECONDS, STRICT, answer, place, progress, transfer
from deploy.rsync_codes import VANISHED
from drift.quantity import size
from drift.report.visible import visible
from facts.cluster import Peer
from facts.named import named_by
from facts.workspace import PARTIAL

_KIB = 1024
_ROOM_SECONDS = 60
# A file that goes while it is copied may be a cache of a running job, or pip at work.
_TIMES = 3
# The free KiB of the disk that a folder will be on, and those that a copy that was cut off has.
_FREE = """
p={partial}
while [ ! -d "$p" ] && [ -n "$p" ]; do p=${{p%/*}}; done
df -Pk "${{p:-/}}" | awk 'NR == 2 {{ print "free", $4 }}'
du -sk {partial}/. 2>/dev/null | awk '{{ print "sent", $1 }}'
"""


def partial_of(path: str) -> str:
    """Return where an environment grows: beside its place, on the same disk, out of sight."""
    above, _, name = path.rstrip("/").rpartition("/")
    return f"{above}/.{name}{PARTIAL}"


def command(version: str) -> list[str]:
    """Return rsync with its options: links, hard links, modes, owners and times as they are.

    What a copy that was cut off has sent is not sent again; what the source has no longer goes from
    the unfinished copy, which is nobody's yet.
    """
    kept = ["-rlptgoH", "--delete-delay", f"--partial-dir={PARTIAL}"]
    return ["rsync", *kept, f"--timeout={IDLE_SECONDS}", *progress(version)]


def has_room(state: State, host: Host, source: str, path: str) -> bool:
    """See whether the node's disk takes the environment; where not, say so and copy nothing."""
    try:
        needed = _kib(state, source, path)
    except (OSError, ValueError) as error:
        logger.error(
            f"{host.print_prefix}{path}: how large it is on {source} cannot be told: "
            f"{visible(str(error))}; nothing was changed"
        )
        return False
    try:
        free, sent = _free(state, host, path)
    except OSError as error:
        logger.error(
            f"{host.print_prefix}{path}: how much room the disk here has cannot be told: "
            f"{visible(str(error))}; look with df -Pk; nothing was copied"
        )
        return False
    if needed > free + sent:
        logger.error(
            f"{host.print_prefix}{path}: has {size(needed * _KIB)} on {source}, and the disk here "
            f"has {size(free * _KIB)} free; nothing was copied"
        )
        return False
    return True


def copy(
    state: State, host: Host, source: str, path: str, version: str, peer: Mapping[str, Any]
) -> bool:
    """Copy an environment beside its place; the next run goes on where this one is cut off."""
    ssh = ["ssh", *STRICT, "-p", str(Peer.model_validate(peer).port)]
    to = place(Peer.model_validate(peer), named_by(host.data.dict()).user, partial_of(path))
    argv = [*command(version), "-e", shlex.join(ssh), f"{path}/", to]
    try:
        total = _kib(state, source, path) * _KIB
    except (OSError, ValueError):
        total = 0
    for _ in range(_TIMES):
        code, said, _ = transfer(state, host, source, argv, total)
        if code != VANISHED:
            break
    if code:
        why = "it changes while it is copied" if code == VANISHED else "; ".join(said[-3:])
        logger.error(
            f"{host.print_prefix}{path}: rsync from {source} ended with {code}: {visible(why)}; "
            "what was sent waits beside its place, and the next run sends the rest"
        )
    return code == 0


def _kib(state: State, source: str, path: str) -> int:
    """Return how large an environment is on the node that has it; path may be a link to it."""
    said = answer(state, source, ["du", "-sk", f"{path}/."])
    if not said:
        raise OSError("du gave no answer")
    return int(said[-1].split()[0])


def _free(state: State, host: Host, path: str) -> tuple[int, int]:
    """Return the KiB that the node's disk has free, and those that a copy that was cut off has.

    OSError: df has not told the first.
    """
    asked = StringCommand(_FREE.format(partial=shlex.quote(partial_of(path))))
    done, output = host.run_shell_command(asked, **of_operation(state, host, _ROOM_SECONDS))
    rows = [line.split() for line in output.stdout_lines]
    told = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
    if not done or "free" not in told:
        raise OSError(output.stderr.strip() or "df gave no answer")
    return told["free"], told.get("sent", 0)
