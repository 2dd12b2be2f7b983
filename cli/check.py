"""`gpu-node check`: the inventory alone, without asking a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import failure
from gpu_node.inventories.plurals import counted

if TYPE_CHECKING:
    from gpu_node.inventories.fields.switched import Off


@click.command(short_help="Check INVENTORY alone; contacts no node.")
@click.argument("inventory", callback=words.inventory_file, shell_complete=completion.files)
def check(inventory: str) -> None:
    """Check INVENTORY alone, and print what it names: nodes and groups. Contacts no node.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). Lists all errors: file,
    line, key, what is found, what is allowed, and what to write. Says which checks are on again:
    the last day of their entry is over.

    \b
    Exit status:  0 no error   1 an error
    Examples:     gpu-node check cluster/site.yml
                  gpu-node check inventories/lab.py
    """
    with loading():
        from pyinfra.api.exceptions import PyinfraError

        from gpu_node.drift.impossible import impossible
        from gpu_node.drift.ranges import ranges
        from gpu_node.facts.ask.gather import named_groups
        from gpu_node.inventories.errors import dotted
        from gpu_node.inventories.schema import InventoryError, NodeWanted
    problems: list[str] = []
    ruled_out: dict[str, list[str]] = {}
    over: dict[str, None] = {}
    try:
        hosts, groups = named_groups(inventory)
    except (PyinfraError, OSError) as error:
        raise failure(error) from None
    for name, data in hosts.items():
        try:
            wanted = NodeWanted.from_data(data)
            over.update(dict.fromkeys(_over(wanted.checks or {})))
            for problem in impossible(wanted):
                ruled_out.setdefault(f"{dotted(problem.path)}: {problem}", []).append(name)
        except InventoryError as error:
            problems += [f"{name}: {line}" for line in error.lines]
    problems += [f"{ranges(names)}: {line}" for line, names in ruled_out.items()]
    if problems:
        raise click.ClickException("\n".join(problems))
    found = f"{_named(list(hosts), 'node')}; {_named(groups, 'group')}"
    click.echo(f"{inventory}: {found}; no error")
    for line in over:
        click.echo(f"gpu-node: {line}", err=True)


def _over(checks: Mapping[str, bool | Off]) -> Iterator[str]:
    """Yield a line for each check that was off until a day that is over."""
    for name, entry in checks.items():
        if not isinstance(entry, bool) and entry.is_over(date.today()):
            yield (
                f"checks.{name}: off until {entry.until} ({entry.reason}), so it is on again; "
                "next: remove the entry, or write a later day"
            )


def _named(names: list[str], what: str) -> str:
    """Return how many there are, and which."""
    listed = f" ({', '.join(names)})" if names else ""
    return counted(len(names), what, none="no") + listed
