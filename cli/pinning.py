"""Compares the host key that is pinned for a node with those it offers, and pins another one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from paramiko import PKey

from cli.interrupt import at_once
from facts.gather import host_data
from facts.host_key import NoHostKey, offered
from facts.ssh import fingerprint
from inventories.pinned import keys_of, lookups, read, repinned, stale, write

SAME, OTHER = 0, 2


def show_or_pin(inventory: str, node: str, accept: str | None) -> int:
    """Show a node's host keys, or pin the one with the fingerprint `accept`; return exit code."""
    data = host_data(inventory, node)
    if not data.get("ssh_hostname"):
        raise click.ClickException(f"{node} is reached without SSH: it has no host key")
    file = Path(data.get("ssh_known_hosts_file") or "~/.ssh/known_hosts").expanduser()
    text = _read(file)
    names = lookups(node, data["ssh_hostname"], data.get("ssh_port") or 22)
    keys = [f"{key.get_name()} {key.get_base64()}" for key in _offered(node, data)]
    if accept is not None:
        return _accept(file, text, names, keys, accept)
    pinned = keys_of(text, names[0])
    _show(f"pinned for {node} in {file}", pinned)
    _show(f"offered at {names[0]}", keys)
    return SAME if _is_same(pinned, keys) else OTHER


def _read(file: Path) -> str:
    try:
        return read(file)
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror}") from None


def _offered(node: str, data: dict[str, Any]) -> list[PKey]:
    try:
        with at_once():
            return offered(data)
    except NoHostKey as error:
        raise click.ClickException(f"{node}: {error}") from None


def _is_same(pinned: list[str], keys: list[str]) -> bool:
    """Whether a connection finds a pinned key, and no other key of a kind that it asks for."""
    return any(key in pinned for key in keys) and not stale(pinned, keys)


def _show(title: str, keys: Iterable[str]) -> None:
    click.echo(f"{title}:")
    for each in [fingerprint(key) for key in keys] or ["none"]:
        click.echo(f"  {each}")


def _accept(file: Path, text: str, names: tuple[str, ...], keys: list[str], accept: str) -> int:
    chosen = [key for key in keys if fingerprint(key).split()[1] == accept]
    if not chosen:
        told = ", ".join(fingerprint(key) for key in keys)
        raise click.ClickException(
            f"{accept} is none of the keys offered at {names[0]} ({told}); nothing was changed"
        )
    new = repinned(text, names, chosen[0], keys)
    if new == text:
        click.echo(f"{fingerprint(chosen[0])} is pinned already in {file}")
        return SAME
    try:
        write(file, new)
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror}") from None
    click.echo(f"pinned {fingerprint(chosen[0])} for {names[0]} in {file}")
    return SAME
