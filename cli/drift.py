"""`gpu-node drift`: probe every node once, judge it, write the report."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import Choice
from gpu_node.drift.report.formats import FORMATS, SUFFIXES
from gpu_node.facts.ask.via import SLURM, VIAS
from gpu_node.inventories.errors import shown, worded


@click.command(short_help="Read every node of INVENTORY and report what differs.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@words.limit
@words.sudo_password
@click.option(
    "--format",
    "form",
    type=Choice(FORMATS),
    help=f"Default: what the suffix of FILE means, else {FORMATS[0]}.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=completion.files,
    help="Write the report to FILE, not stdout. Its suffix chooses the format: "
    f"{' '.join(SUFFIXES)}.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="Also compare the sha256 of each environment's libnccl with its RECORD. Reads 200 to 300 "
    "MB an environment: a second or two from a quick disk, up to three minutes from a slow one.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="X",
    shell_complete=completion.chosen,
    help="Show the problems of X: a rule, an area, a node.",
)
@click.option("--facts", is_flag=True, help="Show the facts of all nodes as well.")
@click.option(
    "--full", is_flag=True, help="Show every finding with its cause and fix, and all facts."
)
@words.answers
@click.option(
    "--via",
    type=Choice(VIAS),
    default=VIAS[0],
    show_default=True,
    help="What carries the questions to the nodes. clustershell: ClusterShell, without gateways. "
    "slurm: a job on each node, as you; the report is about what a job sees.",
)
@click.option(
    "--mesh",
    type=Choice(("all",)),
    help="Try every login between the nodes: in a cluster of more than 16 nodes the report tries "
    "some of them.",
)
@click.option(
    "--since",
    metavar="WHEN|FILE.json",
    shell_complete=completion.files,
    help="Compare with the report of that time (7d, 2h, a date or time, last), or with one that "
    "--format json wrote: what is new, gone and changed. The exit status counts new drift alone.",
)
@click.option("--no-history", is_flag=True, help="Do not keep this report on this machine.")
@click.option(
    "--anonymous",
    is_flag=True,
    help="Write words in place of names, users, paths, addresses and keys, the same in all reports "
    "of this machine: for people outside of the cluster.",
)
def drift(
    inventory: str,
    limit: tuple[str, ...],
    form: str | None,
    output: str | None,
    deep: bool,
    only: tuple[str, ...],
    facts: bool,
    full: bool,
    answers: str | None,
    via: str,
    mesh: str | None,
    since: str | None,
    no_history: bool,
    anonymous: bool,
) -> int:
    """Read every node of INVENTORY and report what differs. Changes nothing.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). A value that could not be
    read is reported as unreadable, never left out. The table has a line for each problem: what one
    repair mends. --only, --facts and --full change what the table shows, not the exit status.
    Each report over SSH is kept on this machine, see gpu-node history.

    \b
    Exit status:  0 nothing differs   2 drift   1 cannot find out (has precedence over 2)
    Examples:     gpu-node drift inventories/lab.py
                  gpu-node drift inventories/lab.py --limit v100-01 --format json
                  gpu-node drift inventories/lab.py --since 7d
    """
    with loading():
        from gpu_node.cli.asking import (
            ask,
            ask_via,
            files_of,
            jobs_log_in,
            nodes_of,
            read_answers,
            wants,
        )
        from gpu_node.cli.output import check_given, check_not_read, chosen_format
        from gpu_node.facts.probe.request import MESH
    only = tuple(word for each in only for word in each.split(","))
    check_given(output, only)
    if output is not None:
        check_not_read(output, files_of(inventory, limit))
    given = {"--only": bool(only), "--facts": facts, "--full": full}
    chosen_by = f"--format {form}" if form else f"-o {shown(output or '')}"
    form = form or chosen_format(output)
    if form != FORMATS[0] and any(given.values()):
        names = ", ".join(name for name, is_given in given.items() if is_given)
        found = f"{names} with {chosen_by}"
        raise click.UsageError(worded(found, "for the table alone", "one of them"))
    contacting = {"--deep": deep, f"--via {via}": via != VIAS[0], "--mesh": bool(mesh)}
    for name in (name for name, is_given in contacting.items() if is_given and answers is not None):
        raise click.UsageError(worded(f"{name} with --answers", "", "one of them"))
    if only:
        from gpu_node.cli.reporting import check_only

        check_only(only, lambda: nodes_of(inventory, limit))
    if mesh and not wants(inventory, limit, "ssh_mesh"):
        why = "the inventory asks for no logins between the nodes"
        problem = worded(f"{mesh!r}", why, "an inventory with ssh: {mesh: true}", "set it there")
        raise click.UsageError(f"--mesh: {problem}")
    if mesh and via == SLURM and not jobs_log_in(inventory, limit):
        why = "jobs run as you, and no node has you as its training user: no login is tried"
        problem = worded(f"{mesh!r} with --via slurm", why, "one of them")
        raise click.UsageError(f"--mesh: {problem}")
    key = None
    if anonymous:
        from gpu_node.cli.keeping import key_of_names

        key = key_of_names()
    over_ssh = answers is None and via != SLURM
    before = None
    if since is not None:
        from gpu_node.cli.keeping import earlier, is_file

        if not over_ssh and not is_file(since):
            raise words.wrong_since(since, "only reports over SSH are kept", "FILE.json")
        before = earlier(since, inventory)
    data = {MESH: mesh} if mesh else {}
    if answers is not None:
        seen = read_answers(inventory, limit, answers)
    elif via != VIAS[0]:
        seen = ask_via(via, inventory, limit, deep, data)
    else:
        seen = ask(inventory, limit, deep, data, ports=True)
    from gpu_node.cli.reporting import write
    from gpu_node.drift.report.model import report_of
    from gpu_node.drift.report.view import View

    report = report_of(inventory, seen)
    is_kept = over_ssh and not no_history
    if is_kept or before is not None:
        from gpu_node.cli.keeping import finished

        report = finished(report, inventory, before, is_kept, deep, mesh is not None)
    if key is not None:
        from gpu_node.drift.report.anonymous import Anonymity

        hidden = Anonymity(key, report, seen)
        report, only = hidden.of(report), tuple(map(hidden.word, only))
    write(View(report, only), form, output, full, facts)
    # It was to be compared, and the store cannot be read.
    return 1 if before is not None and before.problem else report.exit_code()
