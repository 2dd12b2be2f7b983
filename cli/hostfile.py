"""`gpu-node hostfile`: the hostfile of DeepSpeed's launcher, on stdout."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading


@click.command(short_help="Print DeepSpeed's hostfile of INVENTORY.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@words.limit
def hostfile(inventory: str, limit: tuple[str, ...]) -> None:
    """Print DeepSpeed's hostfile of INVENTORY: `NAME slots=N`, N being gpu.count.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). Checks that each node
    has as many GPUs; if one has not, or does not answer, prints nothing.

    \b
    Exit status:  0 printed   1 a node has other GPUs, or could not be asked
    Examples:     gpu-node hostfile inventories/lab.py > hostfile
                  gpu-node hostfile inventories/lab.py --limit v100 > hostfile
    """
    with loading():
        from gpu_node.cli.asking import ask
        from gpu_node.drift.hostfile import NoHostfile
        from gpu_node.drift.hostfile import hostfile as rendered
    try:
        click.echo(rendered(ask(inventory, limit)), nl=False)
    except NoHostfile as error:
        raise click.ClickException("\n".join(error.reasons)) from None
