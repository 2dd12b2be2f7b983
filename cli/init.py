"""`gpu-node init`: an inventory of servers that you can log in to, and the first report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import Number, failure
from gpu_node.facts.ask.pyinfra_file import CLUSTER_SUFFIX, SUFFIX
from gpu_node.inventories.errors import shown, worded

KNOWN = "~/.ssh/known_hosts"


@click.command(short_help="Write the inventory of your servers, and report.")
@click.argument("folder", metavar="DIR", shell_complete=completion.folders)
@click.argument("nodes", metavar="[NAME=ADDRESS[:PORT]]...", nargs=-1)
@click.option("--user", callback=words.user, help="Log in as; default: ssh_config's, or root.")
@click.option("--port", type=Number(1, 65535), help="Of sshd; default: ssh_config's, or 22.")
@click.option(
    "--key",
    metavar="FILE",
    shell_complete=completion.files,
    help="The private key; default: the agent's and ~/.ssh's.",
)
@click.option("--sudo", is_flag=True, help="Commands run through sudo.")
@words.sudo_password
@click.option(
    "--accept-host-key",
    "accept",
    multiple=True,
    callback=words.fingerprints,
    metavar="[NAME=]SHA256:...",
    help="Fingerprint of a node's host key; NAME is needed with more nodes than one. Default: ask.",
)
@click.option(
    "--known-hosts",
    "known",
    metavar="FILE",
    shell_complete=completion.files,
    default=KNOWN,
    show_default=True,
    help="A host key in this file is accepted without a question.",
)
@click.option(
    "--again",
    is_flag=True,
    help="DIR has an inventory, whose nodes did not answer: report, and write what is found now.",
)
def init(
    folder: str,
    nodes: tuple[str, ...],
    user: str | None,
    port: int | None,
    key: str | None,
    sudo: bool,
    accept: tuple[str, ...],
    known: str,
    again: bool,
) -> int:
    """Write the inventory of your servers into DIR, and report on them. Changes no server.

    Asks for names and addresses where none are given. All host keys are shown and confirmed with
    one question. DIR gets site.yml, site.py and known_hosts; what was found on the nodes (GPUs,
    driver, interface, Python environments with torch) stands in site.yml as comments. The report is
    kept on this machine, see gpu-node history.

    \b
    Exit status:  as gpu-node drift; 1 also if nothing was written
    Examples:     gpu-node init cluster a100-01=10.0.0.4 v100-01=10.0.0.5
                  gpu-node init cluster a=10.0.0.4:2311 "b=[fd00::5]:2312"
                  gpu-node init cluster --user alice --sudo
                  gpu-node init cluster --again
    """
    with loading():
        from gpu_node.cli.asking import ask
        from gpu_node.cli.keeping import kept
        from gpu_node.deploy.console import UserConsole
        from gpu_node.inventories.next_command import next_command
        from gpu_node.onboarding.errors import FAILURES
        from gpu_node.onboarding.initialising import Initialising
        from gpu_node.onboarding.new_site import Access
    if key == "" or not folder:
        name = "--key" if key == "" else "DIR"
        raise click.UsageError(f"{name}: {worded('nothing', '', 'a path')}")
    _check_folder(folder, nodes, again)
    if known != KNOWN and not Path(known).expanduser().is_file():
        problem = worded(shown(known), "no such file", "a known_hosts file")
        raise click.UsageError(f"--known-hosts: {problem}")
    if again and (nodes or user or port or key or sudo or accept):
        why, allowed = "site.yml has the nodes, and how to log in", "--again alone"
        raise click.UsageError(worded("--again with others", why, allowed))
    private = Path(key).expanduser().absolute() if key else None
    access = Access(user, port, private, sudo, accept, Path(known))
    asking = partial(ask, again=next_command("init", folder, "--again"), ports=True)
    try:
        made = Initialising(Path(folder), access, UserConsole(), asking, again, kept)
        return made.run(nodes)
    except FAILURES as error:
        raise failure(error) from None


def _check_folder(folder: str, nodes: Sequence[str], again: bool) -> None:
    """Refuse another word in the place of the folder."""
    why, then = "it looks like NAME=ADDRESS", ["cluster", folder, *nodes]
    if "=" not in folder:
        path = Path(folder)
        if path.suffix not in (CLUSTER_SUFFIX, SUFFIX) or (path.exists() and not again):
            return
        why = "it looks like a cluster file"
        then = [str(path.parent), "--again"] if again else [str(path.with_suffix("")), *nodes]
    command = shlex.join(["gpu-node", "init", *then])
    allowed = "a folder" if "=" in folder else "a folder, which gets site.yml"
    raise click.UsageError(f"DIR: {worded(shown(folder), why, allowed, command)}")
