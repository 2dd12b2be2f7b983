"""`gpu-node verify`: an all-reduce across the nodes, and what each of them took for it."""

from __future__ import annotations

import click

from cli.loading import loading
from cli.words import require_file
from inventories.sizes import ALLOWED, parse_size
from verify.wish import GLOO, NCCL, SECONDS, Wish

LEAST_SECONDS = 10


def _bytes(context: click.Context, option: click.Parameter, written: str) -> int:
    try:
        return parse_size(written)
    except ValueError:
        raise click.BadParameter(f"{written!r} is not {ALLOWED}") from None


@click.command()
@click.argument("inventory")
@click.option("--limit", multiple=True, metavar="X", help="A group or host (pattern).")
@click.option(
    "--python", metavar="PATH", default="", help="The Python that has torch, on every node."
)
@click.option(
    "--backend",
    type=click.Choice([NCCL, GLOO]),
    help="Default: nccl, or gloo where no node has GPUs for torch.",
)
@click.option(
    "--timeout",
    type=click.IntRange(LEAST_SECONDS, 3600),
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

    The first node starts it over the nodes' own SSH, by their names, as the training user: by
    launcher.kind of the inventory, or torchrun. The Python is --python, launcher.python, the first
    of nccl.environments, or python3. Nothing of it stays on a node, after Ctrl-C neither.

    \b
    Exit status:  0 every rank added up what it should   1 otherwise
    Examples:     gpu-node verify inventories/lab.py
                  gpu-node verify inventories/lab.py --limit a100-01 --limit v100-01
    """
    require_file(inventory)
    with loading():
        from cli.verifying import proved
    wish = Wish(python, backend or "", timeout, size, allow_disruption)
    return 0 if proved(inventory, limit, wish) else 1
