"""Waits until a node answers SSH with the pinned host key."""

import socket
import time

from gpu_node.lab import roster
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import run

SECONDS = 15.0
# The limit for an SSH version line, and for each step before it, on the lab's bridge.
GREETING = 2.0
# On a machine without a free processor, a login may take longer than one attempt.
LOGINS = 3


def wait(node: roster.Node) -> None:
    """Return when the node sends its SSH version, and accepts the lab's key if it is authorised."""
    give_up = time.monotonic() + SECONDS
    while not greets(node.address):
        if time.monotonic() > give_up:
            raise LabError(
                f"{node.name} ({node.address}) does not answer SSH after {SECONDS:.0f} s; "
                f"see: podman logs {node.container}"
            )
        time.sleep(0.05)
    if not node.bare:
        for attempt in range(LOGINS):
            try:
                return log_in(node)
            except LabError:
                if attempt + 1 == LOGINS:
                    raise


def greets(address: str) -> bool:
    """Whether an SSH server sends its version."""
    try:
        with socket.create_connection((address, 22), timeout=GREETING) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def listens(address: str, port: int) -> bool:
    """Whether a server accepts connections there."""
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False


def log_in(node: roster.Node) -> None:
    """One session with the client key and the pinned host key."""
    run(
        [
            *("ssh", "-F", "none", "-i", roster.CLIENT_KEY, "-o", "BatchMode=yes"),
            *("-o", "ConnectTimeout=15", "-o", "IdentitiesOnly=yes"),
            *("-o", f"UserKnownHostsFile={roster.KNOWN_HOSTS}", "-o", "StrictHostKeyChecking=yes"),
            *(f"root@{node.address}", "true"),
        ],
        timeout=60,
    )
