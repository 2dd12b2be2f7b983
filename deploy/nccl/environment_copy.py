"""Copies a Python environment from node to node: completely, to the same path, or not at all."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from pyinfra import logger
from pyinfra.api import Host, State

from gpu_node.deploy.engine.run import of_operation
from gpu_node.deploy.workspace.copy_side import receiver, sender
from gpu_node.deploy.workspace.rsync import (
    PLAIN,
    VANISHED,
    account,
    place,
    progress,
    refusal,
    transfer,
)
from gpu_node.deploy.workspace.rsync_run import IDLE_SECONDS, answer
from gpu_node.deploy.workspace.senders import Sender, by_one, senders
from gpu_node.drift.units import size
from gpu_node.facts.ask.execute import execute
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import request_of
from gpu_node.facts.ssh.options import STRICT
from gpu_node.facts.workspace.state import PARTIAL
from gpu_node.inventories.escape import visible

_KIB = 1024
_KIBS = re.compile("[0-9]{1,15}")
_ROOM_SECONDS = 60
# A file that disappears during the copy may be a cache of a running job, or be changed by pip.
_TIMES = 3
# The free KiB of the disk for a folder, and the KiB that an interrupted copy already has.
_FREE = """
p={partial}
while [ ! -d "$p" ] && [ -n "$p" ]; do p=${{p%/*}}; done
df -Pk "${{p:-/}}" | awk 'NR == 2 {{ print "free", $4 }}'
du -sk {partial}/. 2>/dev/null | awk '{{ print "sent", $1 }}'
"""


def partial_of(path: str) -> str:
    """Return the folder of an unfinished copy: beside its place, on the same disk, hidden."""
    above, _, name = path.rstrip("/").rpartition("/")
    return f"{above}/.{name}{PARTIAL}"


def command(version: str) -> list[str]:
    """Return rsync with its options: links, hard links, modes and times as they are.

    The copy belongs to the user who receives it. What an interrupted copy has sent is not sent
    again; what the source no longer has is removed from the unfinished copy.
    """
    kept = ["-rlptH", PLAIN, "--delete-delay", f"--partial-dir={PARTIAL}"]
    return ["rsync", *kept, f"--timeout={IDLE_SECONDS}", *progress(version)]


def has_room(state: State, host: Host, source: str, path: str) -> bool:
    """Check whether the environment fits on the node's disk; if not, report it and copy nothing."""
    where = f"its size on {source}"
    try:
        needed = _kib(state, source, path)
        where = "the free space of the disk here"
        free, sent = _free(state, host, path)
    except (OSError, ValueError) as error:
        why = visible(str(error))
        logger.error(
            f"{host.print_prefix}{path}: cannot determine {where}: {why}; nothing was copied"
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
    """Copy an environment beside its place; after an interruption the next run continues.

    It comes from its source, or from a node that has it from there by now.
    """
    known = senders(state, Sender(source, path))
    return by_one(
        known, host, path, lambda sender: _copy(state, host, sender.node, path, version, peer)
    )


def offer(state: State, host: Host, source: str, path: str) -> bool:
    """Let this node send an environment to others: it is in its place, and whole."""
    senders(state, Sender(source, path)).add(Sender(host.name, path))
    return True


def _copy(
    state: State, host: Host, source: str, path: str, version: str, peer: Mapping[str, Any]
) -> bool:
    ssh = ["ssh", *STRICT, "-p", str(Peer.model_validate(peer).port)]
    data, tree = host.data.dict(), f"{partial_of(path)}/tree"
    to = place(Peer.model_validate(peer), request_of(data).user, tree)
    argv = [*command(version), *receiver(host.name, data, request_of(data).user, tree)]
    argv = sender(account(state, source), path, [*argv, "-e", shlex.join(ssh), f"{path}/", to])
    try:
        total = _kib(state, source, path) * _KIB
    except (OSError, ValueError):
        total = 0
    for _ in range(_TIMES):
        ended = transfer(state, host, source, argv, total)
        code, messages = ended.code, ended.messages
        if code != VANISHED:
            break
    if code and (why := refusal(messages)):
        logger.error(f"{host.print_prefix}{visible(why)}")
    elif code:
        why = "it changes while it is copied" if code == VANISHED else "; ".join(messages[-3:])
        logger.error(
            f"{host.print_prefix}{path}: rsync from {source} ended with {code}: {visible(why)}; "
            "what was sent is kept, and the next run sends the rest"
        )
    return code == 0


def _kib(state: State, source: str, path: str) -> int:
    """Return the size of an environment on its source node; path may be a link to it."""
    lines = answer(state, source, ["du", "-sk", f"{path}/."])
    if not lines:
        raise OSError("du gave no answer")
    if (count := lines[-1].split()[0]) and _KIBS.fullmatch(count):
        return int(count)
    raise OSError(f"du printed {lines[-1]}")


def _free(state: State, host: Host, path: str) -> tuple[int, int]:
    """Return the free KiB of the node's disk, and the KiB that an interrupted copy already has.

    OSError: df did not print the first.
    """
    command = _FREE.format(partial=shlex.quote(partial_of(path)))
    done, output = execute(host.connector, command, _ROOM_SECONDS, of_operation(state, host))
    rows = [line.split() for line in output.stdout_lines]
    kib = {row[0]: int(row[1]) for row in rows if len(row) == 2 and _KIBS.fullmatch(row[1])}
    if not done or "free" not in kib:
        raise OSError(output.stderr.strip() or "df gave no answer")
    return kib["free"], kib.get("sent", 0)
