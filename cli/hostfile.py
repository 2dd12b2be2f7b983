"""`gpu-node hostfile`: the hostfile of DeepSpeed's launcher, on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.inventories.errors import PROGRAM, as_found
from gpu_node.inventories.escape import visible

if TYPE_CHECKING:
    from gpu_node.drift.healthy import Healthy
    from gpu_node.drift.report.seen import Seen


@click.command(short_help="Print DeepSpeed's hostfile of INVENTORY.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@words.limit
@words.sudo_password
@click.option(
    "--healthy",
    is_flag=True,
    help="Print the largest set of nodes without an error that all log in to each other; show on "
    "stderr which nodes are left out, and why.",
)
def hostfile(inventory: str, limit: tuple[str, ...], healthy: bool) -> int:
    """Print DeepSpeed's hostfile of INVENTORY: `NAME slots=N`, N being gpu.count.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). Checks that each node
    has as many GPUs; if one has not, or does not answer, prints nothing.

    \b
    Exit status:  0 printed   1 a node has other GPUs, or could not be asked
                  --healthy: 0 all nodes   2 some nodes   1 no node is left
    Examples:     gpu-node hostfile inventories/lab.py > hostfile
                  gpu-node hostfile inventories/lab.py --healthy --limit v100 > hostfile
    """
    with loading():
        from gpu_node.cli.asking import ask
        from gpu_node.drift.hostfile import NoHostfile
        from gpu_node.drift.hostfile import hostfile as rendered
    seen = ask(inventory, limit)
    if healthy:
        return _healthy(inventory, seen)
    try:
        click.echo(rendered(seen), nl=False)
    except NoHostfile as error:
        raise click.ClickException(str(error)) from None
    return 0


def _healthy(inventory: str, seen: dict[str, Seen]) -> int:
    """Print the hostfile of the nodes on which a job can start, and return the exit code."""
    with loading():
        from gpu_node.drift.healthy import healthy
        from gpu_node.drift.hostfile import hostfile as rendered
        from gpu_node.drift.report.model import report_of

    found = healthy(report_of(inventory, seen).hosts, seen)
    for line in _about(found, inventory):
        click.echo(f"{PROGRAM}: {visible(line)}", err=True)
    click.echo(rendered({name: seen[name] for name in found.nodes}), nl=False)
    if not found.nodes:
        return 1
    return 2 if found.left_out else 0


def _about(found: Healthy, inventory: str) -> Iterator[str]:
    """Yield a line for each node that is left out, and what is not known of the others."""
    with loading():
        from gpu_node.drift.together import MOST_EXACT
        from gpu_node.inventories.next_command import next_command
        from gpu_node.inventories.plurals import counted

    report = next_command("drift", inventory)
    for name, reason in found.left_out.items():
        yield f"{name}: left out: {as_found(reason)}"
    if not found.is_largest:
        yield (
            f"found more than {MOST_EXACT} nodes with failed logins (a larger set of nodes may "
            "exist)"
        )
    if found.untried:
        pairs = counted(found.untried, "pair")
        yield f"found no login tried between {pairs} of these nodes; next: {report}"
    if not found.nodes:
        yield f"found no node on which a job can start; next: {report}"
