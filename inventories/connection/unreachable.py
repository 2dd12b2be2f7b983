"""What to look at where no connection to a node's sshd comes about, by the error of it."""

from __future__ import annotations

from paramiko.ssh_exception import NoValidConnectionsError

from gpu_node.inventories.connection.known_hosts import SSH_PORT


def look(error: BaseException | None, port: int = SSH_PORT) -> str:
    """Return what to look at, empty for another error; paramiko's names the port itself."""
    if isinstance(error, NoValidConnectionsError):
        ((_, port, *_), error), *_ = error.errors.items()
    if isinstance(error, ConnectionRefusedError):
        return "is sshd running there, or on another port?"
    if isinstance(error, TimeoutError):
        return f"is it switched on, is the address right, does a firewall let port {port} through?"
    if isinstance(error, OSError):
        return "is it switched on, is the address right, is there a route to it from this machine?"
    return ""
