"""Asks the nodes of the inventory that a command was given, and tells the way on for a refusal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from cli.interrupt import at_once
from drift.report.model import Seen
from facts.cluster import peers_of
from facts.gather import Answer, gather
from inventories.schema import InventoryError, NodeWanted


def ask(inventory: str, limit: Iterable[str] = (), deep: bool = False) -> dict[str, Seen]:
    """Probe the nodes of an inventory, once; every failure of a node stays with it."""
    require_file(inventory)
    with at_once(), Console(stderr=True).status(f"Reading the nodes of {inventory}"):
        answers = gather(inventory, limit, deep)
    return {name: _seen(name, answer) for name, answer in answers.items()}


def require_file(inventory: str) -> None:
    """Refuse a path to no file: pyinfra would take it for the name of a host."""
    looks_like_file = inventory.endswith((".py", ".yml", ".yaml")) or os.sep in inventory
    is_folder = not inventory or Path(inventory).is_dir()
    if is_folder or (looks_like_file and not Path(inventory).is_file()):
        raise click.UsageError(f"no such inventory file: {inventory}")
    if inventory.endswith((".yml", ".yaml")):
        raise click.UsageError(
            f"{inventory} is what an inventory reads; give the inventory itself, "
            f"{Path(inventory).with_suffix('.py')}"
        )


def _seen(name: str, answer: Answer) -> Seen:
    try:
        wanted = NodeWanted.from_data(answer.data)
    except InventoryError as error:
        raise click.ClickException(f"{name}: {error}") from error
    reason = answer.error and _with_way_on(answer.error, answer.data)
    return Seen(wanted, answer.state, reason, answer.reached, peers_of(answer.data))


def _with_way_on(reason: str, data: dict[str, Any]) -> str:
    """Say what to do where a host key is unknown or has changed: nothing is ever accepted."""
    if "host key" not in reason.lower():
        return reason
    address, port = data.get("ssh_hostname"), data.get("ssh_port") or 22
    return (
        f"{reason} Compare the fingerprint that the node itself shows (ssh-keygen -lf "
        f"/etc/ssh/ssh_host_ed25519_key.pub) with `ssh-keyscan -p {port} {address} | ssh-keygen "
        f"-lf -`, and put the key into {data.get('ssh_known_hosts_file') or '~/.ssh/known_hosts'}"
    )
