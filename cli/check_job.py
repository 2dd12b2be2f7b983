"""`gpu-node check-job`: what will stop a job, from its own files and the nodes."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import click
from typing_extensions import override

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import Choice
from gpu_node.drift.report.formats import FORMATS
from gpu_node.facts.ask.pyinfra_file import INVENTORIES
from gpu_node.inventories.errors import shown, worded


class _Command(click.Command):
    """The command, whose launch line has options of its own."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; say so where -- is missing before the launch line."""
        given = [*takewhile(lambda word: word != "--", args)]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            at = _line_at(given)
            if at is None:
                raise
            command = (
                f"{ctx.command_path} {shlex.join(given[:at]) or 'INVENTORY'} -- {given[at]} ..."
            )
            then = f"write -- before the launch line: {command}"
            why = f"no such option of {self.name}"
            raise click.UsageError(worded(shown(error.option_name), why, then=then), ctx) from None


def _line_at(given: list[str]) -> int | None:
    """Return where a launch line begins among the words of a command; None: nowhere."""
    with loading():
        from gpu_node.drift.job.launch import NoLaunch, of_words
    for at in range(len(given)):
        with suppress(NoLaunch):
            of_words(given[at:])
            return at
    return None


@click.command(cls=_Command, short_help="Say what will stop a job, before it starts.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@click.argument("line", metavar="-- LAUNCH LINE", nargs=-1)
@words.limit
@words.sudo_password
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
    help="Where it is started; default: this folder, if this machine is the node that starts it, "
    "otherwise the workspace of the inventory.",
)
@click.option(
    "--config",
    metavar="FILE",
    shell_complete=completion.files,
    help="DeepSpeed's configuration: a file of this machine, or else of the node that starts it.",
)
@click.option("--parameters", metavar="N", help="Of the model, such as 7e9 or 7B.")
@click.option(
    "--sbatch",
    metavar="FILE",
    shell_complete=completion.files,
    help="A script of this machine: its #SBATCH lines are options of srun.",
)
@click.option(
    "--answers",
    metavar="DIR",
    shell_complete=completion.folders,
    callback=words.folder,
    help="Read NODE.txt in DIR, as gpu-node drift does; contact no node. The job's own files and "
    "paths are not judged.",
)
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
    sbatch: str | None,
    answers: str | None,
    form: str,
    full: bool,
) -> int:
    """Say what will stop a job, before it starts. Starts nothing of it, and changes nothing.

    Reads the launch line (deepspeed, torchrun, mpirun and others) as a shell has expanded it,
    DeepSpeed's configuration, accelerate's and the hostfile, and asks the nodes. Files
    and paths are those of the node that starts it; --config is of this machine, if there is such a
    file. Folder, PATH and the variables that rules judge are taken from this process only where
    this machine is that node.

    A script is not read. It asks itself, with ${CHECK:-} before its launcher and ${CHECK:+exit} on
    the next line; all its other lines run.

    \b
    Exit status:  0 nothing stops it   2 something does   1 cannot find out (has precedence over 2)
    Examples:     gpu-node check-job site.yml -- deepspeed --hostfile hostfile train.py
                  CHECK="$(command -v gpu-node) check-job $PWD/site.yml --" bash train.sh
    """
    if not Path(inventory).is_file() and _line_at([inventory, *line]) == 0:
        then = f"gpu-node check-job INVENTORY -- {inventory} ..."
        problem = worded(shown(inventory), "a launcher", INVENTORIES, then)
        raise click.UsageError(f"INVENTORY: {problem}")
    with loading():
        from gpu_node.cli.asking import ask, read_answers, type_sudo_password
        from gpu_node.cli.job import (
            given_job,
            is_here,
            job_data,
            launch_of,
            launcher_of,
            parameters_of,
            with_job,
        )
        from gpu_node.cli.reporting import write
        from gpu_node.drift.job.outline import lines, stopping
        from gpu_node.drift.report.model import report_of
        from gpu_node.drift.report.view import View
        from gpu_node.inventories.escape import visible
    if full and form != FORMATS[0]:
        found = f"--full with --format {form}"
        raise click.UsageError(worded(found, "for the table alone", "one of them"))
    if config == "":
        raise click.UsageError(f"--config: {worded(shown(config), '', 'a file')}")
    launch, launcher = launch_of(inventory, line, sbatch), launcher_of(inventory, limit, node)
    size = parameters_of(parameters)
    type_sudo_password(inventory, limit)
    # The rest of a script's input is not for what asks the nodes.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if answers is not None:
        seen = read_answers(inventory, limit, answers)
    else:
        seen = ask(inventory, [launcher], only=("host.name",))
    state = seen[launcher].state
    started_here = is_here(state.host.name if state else None)
    given = given_job(inventory, launcher, launch, folder, config, started_here)
    if answers is None:
        seen = ask(inventory, limit, data=job_data(inventory, limit, given))
    job, seen = with_job(given, launcher, seen, size)
    report = stopping(report_of(inventory, seen), job)
    head = "\n".join(map(visible, lines(job, report)))
    write(View(report, given=head), form, None, full=full)
    return report.exit_code()
