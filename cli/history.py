"""`gpu-node history`: what changed on the nodes, as the kept reports show it."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.usage import Choice

FORMATS = ("text", "json")


@click.command(short_help="List what changed on the nodes of INVENTORY, and when.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@click.option(
    "--node", metavar="NODE", shell_complete=completion.nodes, help="List the changes of one node."
)
@click.option(
    "--since",
    metavar="WHEN",
    help="List what reports show since then: 7d, 2h, a date or time, or last.",
)
@click.option("--format", "form", type=Choice(FORMATS), default=FORMATS[0], show_default=True)
def history(inventory: str, node: str | None, since: str | None, form: str) -> None:
    """List what changed on the nodes of INVENTORY, and when. Contacts no node.

    gpu-node drift and init keep their reports on this machine. A fact has its value before and
    now; a finding is new or gone. What a report cannot judge does not change. Listed as well: what
    gpu-node deploy and gpu-node restore did, with the id of the run. The nodes alone know
    the runs of plain pyinfra: gpu-node restore INVENTORY NODE --list.

    \b
    Exit status:  0 listed   1 no report is kept, or the kept ones cannot be read
    Examples:     gpu-node history inventories/lab.py
                  gpu-node history inventories/lab.py --node v100-01 --since 7d
    """
    # Not `with loading()`: nothing here talks to nodes, and its imports would take the most time.
    import json

    from gpu_node.history.listing import as_json, as_text, summary
    from gpu_node.history.store import StoreError, identity, opened
    from gpu_node.history.when import iso
    from gpu_node.inventories.errors import did_you_mean, listed, shown, worded
    from gpu_node.inventories.escape import visible_json
    from gpu_node.inventories.next_command import next_command

    when = words.moment(since) if since is not None else None
    name = identity(inventory)
    try:
        with opened() as store:
            first, last = store.first_report(name), store.report_at(name)
            nodes = store.nodes(name)
            if not nodes:
                store.check_all()
                raise StoreError(f"no report of {inventory} is kept", "gpu-node drift keeps one")
            if node is not None and node not in nodes:
                why = f"no kept report has it{did_you_mean(node, nodes)}"
                raise click.UsageError(f"--node: {worded(shown(node), why, listed(nodes))}")
            begin = int(when.timestamp()) if when else last.at if since and last else 0
            events, count = store.events(name, node, begin), store.count(name)
    except StoreError as error:
        raise click.ClickException(f"history: {worded(str(error), then=error.then)}") from None
    if form == FORMATS[0]:
        lines = [*as_text(events, nodes), "", summary(count, first, last, len(nodes))]
        of_node = next_command("restore", inventory, node or "NODE", "--list")
        lines.append(f"runs of plain pyinfra: {of_node}")
        click.echo("\n".join(lines))
        return
    times = {"first": first and iso(first.at), "last": last and iso(last.at)}
    kept = {"reports": count, **times}
    click.echo(visible_json(json.dumps(as_json(inventory, events, kept), indent=2)))
