"""`gpu-node deploy`: shows what is wrong, asks, has pyinfra repair it, and proves it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import failure
from gpu_node.inventories.errors import did_you_mean, shown, worded


@click.command(short_help="Repair the nodes of INVENTORY, and prove it.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@words.limit
@words.sudo_password
@click.option(
    "--areas",
    metavar="A,B",
    shell_complete=completion.several_areas,
    help="Repair these areas alone; the same as --data areas=.",
)
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
        from gpu_node.cli.asking import ask, wants
        from gpu_node.cli.keeping import keep_run
        from gpu_node.deploy.console import UserConsole
        from gpu_node.deploy.deployment import Deployment, size_of
        from gpu_node.deploy.ports.together import KEY
        from gpu_node.onboarding.errors import FAILURES
    if areas is not None:
        data = (*data, f"areas={areas}")
    values = _values(data, batch)
    if batch is not None:
        try:
            size_of(batch, nodes=1)
        except ValueError as error:
            raise click.UsageError(f"--batch: {error}") from None
    console = UserConsole(yes)
    try:
        ports = wants(inventory, limit, KEY, values)
        asked = partial(ask, inventory, data=values, ports=ports)
        keep = partial(keep_run, inventory, "deploy")
        given = (inventory, limit, data, batch, dry, values)
        return Deployment(*given, console, asked, keep).done()
    except FAILURES as error:
        raise failure(error) from None


def _values(words: Iterable[str], batch: str | None) -> dict[str, object]:
    """Return the values of KEY=VALUE words; UsageError where they cannot be right."""
    with loading():
        from pyinfra_cli.util import parse_cli_arg

        from gpu_node.deploy.engine.scope import names_in
        from gpu_node.facts.areas import AREAS
        from gpu_node.inventories.pyinfra_groups import unknown_data
    found: dict[str, object] = {}
    problems: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            example = "KEY=VALUE, such as shm_size=16G"
            problems.append(f"--data: {worded(shown(word), '', example)}")
        elif key in found:
            problems.append(f"--data: {worded(f'{shown(key)} twice', '', 'once')}")
        else:
            problems += unknown_data(key)
            found[key] = parse_cli_arg(value)
    for area in names_in(found.get("areas")) or ():
        if area not in AREAS:
            why = f"no such area{did_you_mean(area, AREAS)}"
            problems.append(f"--areas: {worded(shown(area), why, ', '.join(AREAS))}")
    if batch is not None and "change" in found:
        problems.append(worded("--batch with --data change=", "", "one of them"))
    if problems:
        raise click.UsageError("\n".join(problems))
    return found
