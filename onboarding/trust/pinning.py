"""Compares the host key that is pinned for a node with those it offers, and pins another one."""

import shlex
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import click
from paramiko import PKey, SSHException

from gpu_node.facts.ask.gather import host_data
from gpu_node.facts.ssh.state import fingerprint
from gpu_node.inventories.connection.known_hosts import (
    keys_of,
    lookups,
    read,
    repinned,
    stale,
    write,
)
from gpu_node.inventories.connection.offered import NoHostKey, offered
from gpu_node.inventories.connection.trusted import GLOBAL, revoked_keys
from gpu_node.inventories.errors import reason, shown, worded
from gpu_node.inventories.escape import visible
from gpu_node.inventories.interrupt import at_once
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.trust.host_keys import ON_ITS_CONSOLE

SAME, OTHER = 0, 2


def show_or_pin(inventory: str, node: str, accept: str | None) -> int:
    """Show a node's host keys, or pin the one with the fingerprint `accept`; return exit code."""
    data = host_data(inventory, node)
    if not node.startswith("@"):  # pyinfra's own connectors
        data = {"ssh_hostname": node, **data}
    if not data.get("ssh_hostname"):
        problem = worded(
            "a node without a host key", "it is reached without SSH", "a node with SSH"
        )
        raise Stopped(f"{node}: {problem}")
    file = Path(data.get("ssh_known_hosts_file") or "~/.ssh/known_hosts").expanduser()
    text = _read(file)
    names = _names(node, data)
    keys = [f"{key.get_name()} {key.get_base64()}" for key in _offered(node, data)]
    if accept is not None:
        return _accept(file, text, names, keys, accept)
    pinned, barred = keys_of(text, names[0]), _revoked(text, names)
    _show(f"pinned for {node} in {file}", pinned, barred)
    _show(f"offered at {names[0]}", keys, barred)
    left = [key for key in keys if key not in barred]
    if _is_same(pinned, left):
        return SAME
    for key in left:
        if key not in pinned:
            then = f"compare it with what {ON_ITS_CONSOLE} shows on its console; then:"
            click.echo(visible(f"next: {then} {_accepting(inventory, node, key)}"), err=True)
    return OTHER


def _accepting(inventory: str, node: str, key: str) -> str:
    """Return the command that pins a key."""
    words = ["gpu-node", "host-key", inventory, node, "--accept", fingerprint(key).split()[1]]
    return shlex.join(words)


def _names(node: str, data: dict[str, Any]) -> tuple[str, ...]:
    try:
        return lookups(
            node, data["ssh_hostname"], data.get("ssh_port"), data.get("ssh_config_file")
        )
    except SSHException as error:
        raise Stopped(str(error)) from None


def _read(file: Path) -> str:
    try:
        return read(file)
    except OSError as error:
        raise Stopped(f"{file}: {_unusable(error, 'cannot be read')}") from None


def _revoked(text: str, names: tuple[str, ...]) -> list[str]:
    try:
        return revoked_keys(text, names)
    except OSError as error:
        raise Stopped(f"{GLOBAL}: {_unusable(error, 'cannot be read')}") from None


def _unusable(error: OSError, what: str) -> str:
    return worded(reason(error), what)


def _offered(node: str, data: dict[str, Any]) -> list[PKey]:
    try:
        with at_once():
            return offered(data)
    except NoHostKey as error:
        raise Stopped(f"{node}: {worded('no host key', str(error))}") from None


def _is_same(pinned: list[str], keys: list[str]) -> bool:
    """Whether a connection finds a pinned key, and no other key of a kind that it asks for."""
    return any(key in pinned for key in keys) and not stale(pinned, keys)


def _show(title: str, keys: Iterable[str], barred: Collection[str]) -> None:
    click.echo(visible(f"{title}:"))
    rows = [f"{fingerprint(key)}{' (revoked)' * (key in barred)}" for key in keys]
    for row in rows or ["none"]:
        click.echo(visible(f"  {row}"))


def _accept(file: Path, text: str, names: tuple[str, ...], keys: list[str], accept: str) -> int:
    chosen = [key for key in keys if fingerprint(key).split()[1] == accept]
    if not chosen:
        offers = ", ".join(fingerprint(key) for key in keys)
        why = f"not offered at {names[0]}, and nothing was changed"
        then = f"see which it is on its console: {ON_ITS_CONSOLE}"
        raise Stopped(f"--accept: {worded(shown(accept), why, offers, then)}")
    if chosen[0] in _revoked(text, names):
        why = (
            f"revoked by a @revoked line of {file} or {GLOBAL}: another machine may have that key; "
            "nothing was changed"
        )
        then = (
            "create a new one on the node (remove the old file, then ssh-keygen -A), or remove the "
            "line if it is wrong"
        )
        problem = worded(shown(accept), why, "a key that is not revoked", then)
        raise Stopped(f"--accept: {problem}")
    new = repinned(text, names, chosen[0], keys)
    if new == text:
        click.echo(visible(f"{fingerprint(chosen[0])} is pinned already in {file}"))
        return SAME
    try:
        write(file, new)
    except OSError as error:
        raise Stopped(f"{file}: {_unusable(error, 'cannot be written')}") from None
    click.echo(visible(f"pinned {fingerprint(chosen[0])} for {names[0]} in {file}"))
    return SAME
