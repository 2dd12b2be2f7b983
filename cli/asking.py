"""Asks the nodes of the inventory that a command was given, and tells the way on for a refusal."""

from __future__ import annotations

from collections.abc import Iterable

import click
from rich.console import Console

from cli.interrupt import at_once
from cli.words import require_file
from drift.report.model import Seen
from facts.cluster import peers_of
from facts.gather import Answer, gather
from inventories import handshake
from inventories.refusals import explained, refusal
from inventories.schema import InventoryError, NodeWanted


def ask(inventory: str, limit: Iterable[str] = (), deep: bool = False) -> dict[str, Seen]:
    """Probe the nodes of an inventory, once; every failure of a node stays with it."""
    require_file(inventory)
    handshake.install()
    with at_once(), Console(stderr=True).status(f"Reading the nodes of {inventory}"):
        answers = gather(inventory, limit, deep)
    return {name: _seen(inventory, name, answer) for name, answer in answers.items()}


def _seen(inventory: str, name: str, answer: Answer) -> Seen:
    try:
        wanted = NodeWanted.from_data(answer.data)
    except InventoryError as error:
        raise click.ClickException(f"{name}: {error}") from error
    return Seen(
        wanted,
        answer.state,
        _with_way_on(inventory, name, answer),
        answer.reached,
        peers_of(answer.data),
    )


def _with_way_on(inventory: str, name: str, answer: Answer) -> str | None:
    """Say what to do where a host key is unknown or has changed: nothing is ever accepted."""
    refused = refusal(answer.cause)
    if answer.error is None or refused is None:
        return answer.error
    return explained(answer.error, refused, inventory, name)
