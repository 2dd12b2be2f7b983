"""`gpu-node fit`: what a mixed cluster can agree on, and the shortest way there."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import Choice

FORMATS = ("table", "json")


@click.command(short_help="Say which driver, CUDA, torch and NCCL fit all nodes.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@words.limit
@words.sudo_password
@click.option("--format", "form", type=Choice(FORMATS), default=FORMATS[0], show_default=True)
@words.answers
def fit(inventory: str, limit: tuple[str, ...], form: str, answers: str | None) -> int:
    """Say which driver branches, CUDA versions, torch wheels and NCCL versions fit all nodes.

    Shows what each node has now, what fits every GPU and system at once, what rules the rest out,
    and the set with the fewest changes. Changes nothing. A node that does not answer, or a GPU of
    no table, is unknown: of such a node the GPUs alone count, where the inventory has them and a
    table knows them. --format json has the source of each reason.

    \b
    Exit status:  0 all nodes have the set   2 some need changes   1 a node is unknown, or no set
                  fits all (has precedence over 2)
    Examples:     gpu-node fit inventories/lab.py
                  gpu-node fit inventories/lab.py --format json
    """
    with loading():
        from datetime import datetime, timezone
        from importlib.metadata import version

        from gpu_node.cli.asking import ask, read_answers
        from gpu_node.cli.console import show
        from gpu_node.drift.fit import as_json, shown
        from gpu_node.drift.fit.node import SECTIONS
        from gpu_node.drift.fit.solve import fit as solved
    if answers is not None:
        seen = read_answers(inventory, limit, answers)
    else:
        seen = ask(inventory, limit, only=SECTIONS)
    found = solved(seen)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    if form == FORMATS[0]:
        show(shown.render(found, now))
    else:
        tool = {"name": "gpu-node", "version": version("gpu-node")}
        click.echo(as_json.render(found, inventory, tool, now), nl=False)
    return found.exit_code()
