"""`gpu-node verify`: an all-reduce across the nodes, and which of them it fails with."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import Choice, Number
from gpu_node.inventories.errors import shown, worded
from gpu_node.inventories.fields.sizes import ALLOWED, parse_size
from gpu_node.verify.request import GLOO, LEAST_SECONDS, NCCL, SECONDS, Request

FORMATS = ("table", "json")


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
    help="How long all tries and the job may take, after torch is imported.",
)
@click.option(
    "--size", callback=_bytes, default="64M", show_default=True, help="Of the large tensor."
)
@click.option("--format", "form", type=Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.option("--allow-disruption", is_flag=True, help="Even while processes hold GPUs.")
def verify(
    inventory: str,
    limit: tuple[str, ...],
    python: str,
    backend: str | None,
    timeout: int,
    size: int,
    form: str,
    allow_disruption: bool,
) -> int:
    """Run an all-reduce across the nodes of INVENTORY, started as their launcher starts a job.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). Each node is tried alone,
    then all together. If that fails, or takes more than twice what the links allow, pairs are
    tried, then the largest set that works: the output names the node, the pair or the set that
    fails or is slow, and has the set that works as a hostfile.

    Where all work, the first node starts the job as the training user, over SSH from node to node:
    with launcher.kind of the inventory, or torchrun. The Python is --python, launcher.python, the
    first of nccl.environments, or python3. No process and no file of the job stays on a node, also
    after Ctrl-C.

    \b
    Exit status:  0 every rank computed the right sums, and nothing is named   1 otherwise
    Examples:     gpu-node verify inventories/lab.py
                  gpu-node verify inventories/lab.py --limit a100-01 --limit v100-01
    """
    with loading():
        from gpu_node.cli.asking import type_sudo_password
        from gpu_node.cli.console import show, stage_text, working
        from gpu_node.inventories.escape import visible
        from gpu_node.inventories.interrupt import Interrupted, stop
        from gpu_node.verify.run import verify as run
        from gpu_node.verify.table import as_json, render
    request = Request(python, backend or "", timeout, size, allow_disruption)
    try:
        type_sudo_password(inventory, limit)
        with working("") as status:
            outcome = run(inventory, limit, request, lambda stage: status.update(stage_text(stage)))
    except Interrupted as error:
        for each in error.left:
            click.echo(visible(each), err=True)
        stop()
        raise
    if form == FORMATS[0]:
        show(render(outcome))
    else:
        click.echo(as_json(outcome))
    return 0 if outcome.ok else 1
