"""`gpu-node check`: the inventory alone, without asking a node."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import failure
from gpu_node.inventories.plurals import counted


@click.command(short_help="Check INVENTORY alone; contacts no node.")
@click.argument("inventory", callback=words.inventory_file, shell_complete=completion.files)
def check(inventory: str) -> None:
    """Check INVENTORY alone, and print what it names: nodes and groups. Contacts no node.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). Lists all errors: file,
    line, key, what is found, what is allowed, and what to write.

    \b
    Exit status:  0 no error   1 an error
    Examples:     gpu-node check cluster/site.yml
                  gpu-node check inventories/lab.py
    """
    with loading():
        from pyinfra.api.exceptions import PyinfraError

        from gpu_node.facts.ask.gather import named_groups
        from gpu_node.inventories.schema import InventoryError, NodeWanted
    problems: list[str] = []
    try:
        hosts, groups = named_groups(inventory)
    except (PyinfraError, OSError) as error:
        raise failure(error) from None
    for name, data in hosts.items():
        try:
            NodeWanted.from_data(data)
        except InventoryError as error:
            problems += [f"{name}: {line}" for line in error.lines]
    if problems:
        raise click.ClickException("\n".join(problems))
    click.echo(f"{inventory}: {_named(list(hosts), 'node')}; {_named(groups, 'group')}")


def _named(names: list[str], what: str) -> str:
    """Return how many there are, and which."""
    listed = f" ({', '.join(names)})" if names else ""
    return counted(len(names), what, none="no") + listed
