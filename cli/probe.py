"""`gpu-node probe`: the probe as scripts, for nodes that this machine cannot log in to."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from shlex import join, quote

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.inventories.plurals import counted

LIST = "nodes.tsv"


@click.command(short_help="Write the probe as scripts.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    metavar="DIR",
    shell_complete=completion.folders,
    callback=words.folder,
    help="Write the scripts into DIR.",
)
@words.limit
def probe(inventory: str, folder: str, limit: tuple[str, ...]) -> int:
    """Write the questions of `gpu-node drift` as scripts. Contacts no node.

    Nodes that are asked the same share a script; nodes.tsv in DIR has a line for each node: its
    name, a tab, its script. Run each node's script there, as the training user, with the node's
    name, and bring what it prints back as NAME.txt. A script changes nothing, and needs sh alone.
    Scripts and answers are for their owner alone: a new DIR has mode 0700, each file 0600.

    \b
    Exit status:  0 written   1 not written
    Examples:     gpu-node probe cluster/site.py -o probe
                  (umask 077; ssh a100-01 sh -s a100-01 <probe/a100-01.sh >probe/a100-01.txt)
                  gpu-node drift cluster/site.py --answers probe
    """
    with loading():
        from gpu_node.cli.asking import offline_hosts
        from gpu_node.cli.output import unwritable
        from gpu_node.facts.ask.offline import ANSWER_SUFFIX, SCRIPT_SUFFIX, scripts
        from gpu_node.facts.ask.via.login import named
        from gpu_node.inventories import writers
        from gpu_node.inventories.atomic_write import replace
        from gpu_node.inventories.errors import reason, worded
    hosts = offline_hosts(inventory, limit)
    made = scripts(hosts, version("gpu-node"))
    target = Path(folder)
    try:
        writers.check_way(target)
        target.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = worded(reason(error), f"cannot write scripts into {folder}", "a directory")
        raise click.ClickException(f"--output: {problem}") from None
    files = {target / f"{script.name}{SCRIPT_SUFFIX}": script.text for script in made}
    rows = [f"{node}\t{script.name}{SCRIPT_SUFFIX}\n" for script in made for node in script.nodes]
    files[target / LIST] = "".join(rows)
    for file, text in files.items():
        try:
            writers.check_way(file)
            replace(file, text.encode())
        except OSError as error:  # it may name a file that replaces this one
            raise unwritable(str(file), error) from None
    how_many = f"{counted(len(made), 'script')} for {counted(len(rows), 'node')}"
    click.echo(f"{how_many}: {target / LIST}")
    name = made[0].name
    asked, answer = (quote(str(target / f"{name}{end}")) for end in (SCRIPT_SUFFIX, ANSWER_SUFFIX))
    ssh = join(["ssh", *named(hosts[name]), str(hosts[name].get("ssh_hostname") or name)])
    line = f"(umask 077; {ssh} sh -s {name} <{asked} >{answer})"
    click.echo(f"next: for each node, such as: {line}")
    part = [word for each in limit for word in ("--limit", each)]
    click.echo(f"then: {join(['gpu-node', 'drift', inventory, '--answers', folder, *part])}")
    return 0
