"""`gpu-node deploy`: shows what is wrong, asks, has pyinfra repair it, and proves it."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import failure


@click.command(short_help="Repair the nodes of INVENTORY, and prove it.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@click.option("--limit", multiple=True, metavar="X", help="A group or host (pattern).")
@click.option("--areas", metavar="A,B", help="Repair these areas alone; the same as --data areas=.")
@click.option(
    "--data", multiple=True, metavar="KEY=VALUE", help="A value in place of the inventory's."
)
@click.option(
    "--batch",
    metavar="N|SHARE%",
    help="Repair and prove so many nodes, then as many more; the first batches hold one node of "
    "each GPU model. A batch that is not proved ends the run.",
)
@click.option("--dry", is_flag=True, help="Show what would be done; changes nothing.")
@click.option("-y", "--yes", is_flag=True, help="Repair without asking.")
def deploy(
    inventory: str,
    limit: tuple[str, ...],
    areas: str | None,
    data: tuple[str, ...],
    batch: str | None,
    dry: bool,
    yes: bool,
) -> int:
    """Repair the nodes of INVENTORY, and prove it: the same run as pyinfra with our deploy.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). The problems are shown as
    `gpu-node drift` shows them, before and after. KEY is one of docs/inventory.md (shm_size=16G),
    or allow_disruption, reboot, override_locks, areas, change.

    \b
    Exit status:  0 repaired and proved (--dry: all nodes answered)   1 otherwise
    Examples:     gpu-node deploy inventories/lab.py
                  gpu-node deploy inventories/lab.py --areas shm,limits --batch 25%
    """
    with loading():
        from gpu_node.cli.deploying import Deployment, InventoryRun
        from gpu_node.onboarding.console import UserConsole
        from gpu_node.onboarding.errors import FAILURES
    run = InventoryRun(inventory, limit, areas, data, batch, dry)
    try:
        return Deployment(run, UserConsole(yes)).done()
    except FAILURES as error:
        raise failure(error) from None
