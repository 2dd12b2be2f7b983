"""`gpu-node diagnose`: the root cause of a failed job, from its logs."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import Choice

FORMATS = ("text", "json")


@click.command(short_help="Name the root cause of a failed job from its logs.")
@click.argument("logs", nargs=-1, required=True, metavar="LOG...", shell_complete=completion.files)
@click.option(
    "--inventory",
    metavar="INVENTORY",
    callback=lambda context, option, word: word and words.inventory(context, option, word),
    shell_complete=completion.files,
    help="Ask its nodes which of the rules that look for a cause have a finding now.",
)
@words.sudo_password
@click.option("--format", "form", type=Choice(FORMATS), default=FORMATS[0], show_default=True)
def diagnose(logs: tuple[str, ...], inventory: str | None, form: str) -> int:
    """Name the root cause of a failed job from its logs, and what shows it. Changes nothing.

    LOG is a file, a folder of them (a log for each rank), or - for stdin; gzip is read as well, and
    dumps of torch's flight recorder. What follows from another failure is no cause. At
    most three causes are named, the likeliest first; gpu-node explain cause.NAME says more.

    \b
    Exit status:  0 a cause, or healthy   2 no answer   1 a log that cannot be read
    Examples:     gpu-node diagnose train.log
                  gpu-node diagnose logs/ --inventory inventories/lab.py
    """
    with loading():
        import json

        from gpu_node.cli.console import show, working
        from gpu_node.diagnose.answer import ANSWERS
        from gpu_node.diagnose.answer import diagnose as read
        from gpu_node.diagnose.limited import Ended, apart
        from gpu_node.diagnose.report import as_json, render
        from gpu_node.diagnose.sources import LogError
        from gpu_node.diagnose.sources import logs as find
        from gpu_node.inventories.errors import worded
        from gpu_node.inventories.escape import visible_json
    try:
        found, lost = find(logs)
        with working("Reading the logs"):
            answer = apart(lambda meter: read(found, lost, meter=meter))
    except Ended as error:
        raise click.ClickException(f"LOG: {worded(str(error), then='name fewer logs')}") from None
    except LogError as error:
        raise click.UsageError(f"LOG: {error}") from None
    now = None
    if inventory and any(each.cause.rules for each in answer.candidates):
        from gpu_node.cli.asking import ask
        from gpu_node.drift.report.model import report_of

        now = report_of(inventory, ask(inventory))
    if form == FORMATS[0]:
        show(render(answer, now))
    else:
        click.echo(visible_json(json.dumps(as_json(answer, now), indent=2)))
    return 0 if answer.verdict in ANSWERS else 2
