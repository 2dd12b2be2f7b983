"""`gpu-node check-job`: what will stop a job, from its own files and the nodes."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import Choice
from gpu_node.drift.report.formats import FORMATS
from gpu_node.inventories.errors import shown, worded


@click.command(short_help="Say what will stop a job, before it starts.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@click.argument("line", metavar="SCRIPT | -- LAUNCH LINE", nargs=-1, required=True)
@words.limit
@click.option(
    "--from",
    "node",
    metavar="NODE",
    shell_complete=completion.nodes,
    help="The node that starts it; default: the first of them.",
)
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    callback=words.folder,
    shell_complete=completion.folders,
    help="Where it is started; default: where the script goes, the workspace of the inventory, or "
    "the home of the training user.",
)
@click.option(
    "--config",
    metavar="FILE",
    shell_complete=completion.files,
    help="DeepSpeed's configuration: a file of this machine, or else of the node that starts it.",
)
@click.option("--parameters", metavar="N", help="Of the model, such as 7e9 or 7B.")
@click.option("--format", "form", type=Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.option("--full", is_flag=True, help="Show every finding with its cause and fix.")
def check_job(
    inventory: str,
    line: tuple[str, ...],
    limit: tuple[str, ...],
    node: str | None,
    folder: str | None,
    config: str | None,
    parameters: str | None,
    form: str,
    full: bool,
) -> int:
    """Say what will stop a job, before it starts. Runs nothing of it, and changes nothing.

    Reads the launch line (deepspeed, torchrun, accelerate launch, mpirun, srun), or a script that
    has one, DeepSpeed's configuration, accelerate's and the hostfile, and asks the nodes. Files and
    paths are those of the node that starts it; a script or --config is of this machine, if there is
    such a file. A value that only a shell would know is unknown, and is not judged.

    \b
    Exit status:  0 nothing stops it   2 something does   1 cannot find out (has precedence over 2)
    Examples:     gpu-node check-job inventories/lab.py -- deepspeed --hostfile hostfile train.py
                  gpu-node check-job inventories/lab.py --parameters 7B train.sh
    """
    with loading():
        from gpu_node.cli.asking import ask
        from gpu_node.cli.job import given_job, job_data, with_job
        from gpu_node.cli.reporting import write
        from gpu_node.drift.job.outline import lines, stopping
        from gpu_node.drift.report.model import report_of
        from gpu_node.inventories.escape import visible
    if full and form != FORMATS[0]:
        found = f"--full with --format {form}"
        raise click.UsageError(worded(found, "for the table alone", "one of them"))
    if config == "":
        raise click.UsageError(f"--config: {worded(shown(config), '', 'a file')}")
    given, launcher = given_job(inventory, limit, node, line, folder, config)
    data = job_data(inventory, limit, given, parameters)
    job, seen = with_job(given, launcher, ask(inventory, limit, data=data))
    report = stopping(report_of(inventory, seen), job)
    head = "\n".join(map(visible, lines(job, report)))
    write(report, form, None, full=full, head=head)
    return report.exit_code()
