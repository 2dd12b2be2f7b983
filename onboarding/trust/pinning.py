"""Compares the host key that is pinned for a node with those it offers, and pins another one."""

import shlex
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import click
from paramiko import PKey, SSHException

from gpu_node.facts.ask.gather import host_data
from gpu_node.facts.ssh.state import fingerprint
from gpu_node.inventories.connection.known_hosts import keys_of, lookups, repinned, stale
from gpu_node.inventories.connection.offered import NoHostKey, offered
from gpu_node.inventories.connection.trusted import GLOBAL
from gpu_node.inventories.errors import shown, worded
from gpu_node.inventories.escape import visible
from gpu_node.inventories.interrupt import at_once
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.inventory_files import known_hosts
from gpu_node.onboarding.trust.host_keys import (
    ON_ITS_CONSOLE,
    barred_in,
    digest,
    known_in,
    listed,
    texts,
    written,
)

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
    file = known_hosts(data)
    text = known_in(file)
    names = _names(node, data)
    keys = texts(_offered(node, data))
    if accept is not None:
        return _accept(file, text, names, keys, accept)
    pinned, barred = keys_of(text, names[0]), barred_in(text, names)
    _show(f"pinned for {node} in {file}", pinned, barred)
    _show(f"offered at {names[0]}", keys, barred)
    left = [key for key in keys if key not in barred]
    # A connection finds a pinned key, and no other key of a kind that it asks for.
    if any(key in pinned for key in left) and not stale(pinned, left):
        return SAME
    for key in left:
        if key not in pinned:
            then = f"compare it with what {ON_ITS_CONSOLE} shows on its console; then:"
            words = ["gpu-node", "host-key", inventory, node, "--accept", digest(key)]
            click.echo(visible(f"next: {then} {shlex.join(words)}"), err=True)
    return OTHER


def _names(node: str, data: dict[str, Any]) -> tuple[str, ...]:
    port, config = data.get("ssh_port"), data.get("ssh_config_file")
    try:
        return lookups(node, data["ssh_hostname"], port, config)
    except SSHException as error:
        raise Stopped(str(error)) from None


def _offered(node: str, data: dict[str, Any]) -> list[PKey]:
    try:
        with at_once():
            return offered(data)
    except NoHostKey as error:
        raise Stopped(f"{node}: {worded('no host key', str(error))}") from None


def _show(title: str, keys: Iterable[str], barred: Collection[str]) -> None:
    click.echo(visible(f"{title}:"))
    rows = [f"{fingerprint(key)}{' (revoked)' * (key in barred)}" for key in keys]
    for row in rows or ["none"]:
        click.echo(visible(f"  {row}"))


def _accept(file: Path, text: str, names: tuple[str, ...], keys: list[str], accept: str) -> int:
    chosen = [key for key in keys if digest(key) == accept]
    if not chosen:
        why = f"not offered at {names[0]}, and nothing was changed"
        then = f"see which it is on its console: {ON_ITS_CONSOLE}"
        raise Stopped(f"--accept: {worded(shown(accept), why, listed(keys), then)}")
    if chosen[0] in barred_in(text, names):
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
    shown_key = fingerprint(chosen[0])
    if written(file, text, new):
        click.echo(visible(f"pinned {shown_key} for {names[0]} in {file}"))
    else:
        click.echo(visible(f"{shown_key} is pinned already in {file}"))
    return SAME
