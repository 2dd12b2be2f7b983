"""`gpu-node verify`: an all-reduce across the nodes, and what each of them took for it."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import Choice, Number
from gpu_node.inventories.errors import shown, worded
from gpu_node.inventories.fields.sizes import ALLOWED, parse_size
from gpu_node.verify.request import GLOO, NCCL, SECONDS, Request

LEAST_SECONDS = 10


def _bytes(context: click.Context, option: click.Parameter, written: str) -> int:
    try:
        return parse_size(written)
    except ValueError:
        raise click.BadParameter(worded(shown(written), "", ALLOWED)) from None


@click.command(short_help="Run an all-reduce across the nodes of INVENTORY.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@words.limit
@words.sudo_password
@click.option(
    "--python", metavar="PATH", default="", help="The Python that has torch, on every node."
)
@click.option(
    "--backend",
    type=Choice([NCCL, GLOO]),
    help="Default: nccl, or gloo where no node has GPUs for torch.",
)
@click.option(
    "--timeout",
    type=Number(LEAST_SECONDS, 3600),
    default=SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long the job may take.",
)
@click.option(
    "--size", callback=_bytes, default="64M", show_default=True, help="Of the large tensor."
)
@click.option("--allow-disruption", is_flag=True, help="Even while processes hold GPUs.")
def verify(
    inventory: str,
    limit: tuple[str, ...],
    python: str,
    backend: str | None,
    timeout: int,
    size: int,
    allow_disruption: bool,
) -> int:
    """Run an all-reduce across the nodes of INVENTORY, started as their launcher starts a job.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). The first node starts the
    job as the training user, over SSH from node to node: with launcher.kind of the inventory, or
    torchrun. The Python is --python, launcher.python, the first of nccl.environments, or python3.
    No process and no file of the job stays on a node, also after Ctrl-C.

    \b
    Exit status:  0 every rank computed the right sums   1 otherwise
    Examples:     gpu-node verify inventories/lab.py
                  gpu-node verify inventories/lab.py --limit a100-01 --limit v100-01
    """
    with loading():
        from gpu_node.cli.console import show, stage_text, working
        from gpu_node.inventories.escape import visible
        from gpu_node.inventories.interrupt import Interrupted, stop
        from gpu_node.verify.run import verify as run
        from gpu_node.verify.table import render
    request = Request(python, backend or "", timeout, size, allow_disruption)
    try:
        with working("") as status:
            outcome = run(inventory, limit, request, lambda stage: status.update(stage_text(stage)))
    except Interrupted as error:
        for each in error.left:
            click.echo(visible(each), err=True)
        stop()
        raise
    show(render(outcome))
    return 0 if outcome.ok else 1
