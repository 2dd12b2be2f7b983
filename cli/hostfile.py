"""`gpu-node hostfile`: the hostfile of DeepSpeed's launcher, on stdout."""

from __future__ import annotations

import click

from cli.loading import loading
from cli.words import require_file


@click.command()
@click.argument("inventory")
@click.option("--limit", multiple=True, metavar="X", help="A group or host (pattern).")
def hostfile(inventory: str, limit: tuple[str, ...]) -> None:
    """Print DeepSpeed's hostfile of INVENTORY: `NAME slots=N`, N being gpu.count.

    Each node is asked whether it has as many GPUs; where one has not, or does not answer, nothing
    is printed.

    \b
    Exit status:  0 printed   1 a node has other GPUs, or could not be asked
    Examples:     gpu-node hostfile inventories/lab.py > hostfile
                  gpu-node hostfile inventories/lab.py --limit v100 > hostfile
    """
    require_file(inventory)
    with loading():
        from cli.asking import ask
        from drift.hostfile import NoHostfile
        from drift.hostfile import hostfile as rendered
    try:
        click.echo(rendered(ask(inventory, limit)), nl=False)
    except NoHostfile as error:
        raise click.ClickException("no hostfile:\n" + "\n".join(error.reasons)) from None
