"""`gpu-node onboard`: new servers, from an address and a password to proved members."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import Choice, Number, failure
from gpu_node.inventories.errors import worded


@click.command(short_help="Make a server a member of the cluster, and prove it.")
@click.argument("name", required=False, callback=words.name)
@click.argument("address", required=False, callback=words.address, metavar="[ADDRESS[:PORT]]")
@words.cluster_file
@words.sudo_password
@click.option(
    "--from",
    "file",
    metavar="FILE.csv",
    shell_complete=completion.files,
    help="Many servers: see above.",
)
@click.option(
    "--user",
    metavar="USER",
    callback=words.user,
    help="SSH user; default: that of ADDRESS in ssh_config, of the inventory, or root.",
)
@click.option("--port", type=Number(1, 65535), metavar="PORT", help="Port of its sshd.")
@click.option(
    "--group",
    metavar="GROUP",
    callback=words.group,
    help="Its group; default: the group for its GPUs.",
)
@click.option(
    "--accept-host-key",
    "accept",
    multiple=True,
    callback=words.fingerprints,
    metavar="[NAME=]SHA256:...",
    help="Fingerprint of the host key; NAME is needed with more servers than one. Default: ask.",
)
@click.option("--password-stdin", is_flag=True, help="The password is the first line of stdin.")
@click.option(
    "--disable-password", is_flag=True, help="Disable password logins in its sshd at the end."
)
@click.option(
    "--verify",
    "proof",
    type=Choice(["auto", "nccl", "gloo", "no"]),
    default="auto",
    show_default=True,
    help="The backend of the job at the end; no: run no job.",
)
@click.option("--dry", is_flag=True, help="Show what would be done; changes nothing.")
@click.option("-y", "--yes", is_flag=True, help="Write the entry without asking.")
def onboard(
    name: str | None,
    address: str | None,
    inventory: str,
    file: str | None,
    user: str | None,
    port: int | None,
    group: str | None,
    accept: tuple[str, ...],
    password_stdin: bool,
    disable_password: bool,
    proof: str,
    dry: bool,
    yes: bool,
) -> int:
    """Make the server NAME at ADDRESS a member of the cluster, and prove it.

    The stages: its host key is confirmed and pinned, this machine's key is let in, a pre-flight
    check, its entry in FILE.yml, the mesh with the other nodes, the deploy, a report and a job. The
    password comes from a prompt, from GPU_NODE_PASSWORD or from stdin, and is never stored. Run the
    same command again to resume an interrupted onboarding; ADDRESS may then be omitted.

    FILE.csv has one line for each server: name,address[,group[,fingerprint]], or a first line that
    names its columns. The fingerprint is that of the only host key that is accepted.

    \b
    Exit status:  0 a member, and proved unless --verify no (--dry: could be one)   1 otherwise
    Examples:     gpu-node onboard v100-02 10.168.144.6 --inventory inventories/lab.yml
                  gpu-node onboard --from new.csv --inventory inventories/lab.yml -y
    """
    if bool(name) == (file is not None):
        found = "NAME with --from" if name else "nothing"
        raise click.UsageError(f"NAME: {worded(found, '', 'a NAME, or --from FILE.csv')}")
    if file is not None and group:
        why, allowed = "FILE.csv has the groups", "one of them"
        raise click.UsageError(worded("--group with --from", why, allowed))
    if address is not None:
        address, port = words.at_port(address, port)
    with loading():
        from gpu_node.cli.asking import ask
        from gpu_node.deploy.console import UserConsole
        from gpu_node.onboarding.admission import Options, Request
        from gpu_node.onboarding.errors import FAILURES
        from gpu_node.onboarding.inventory_files import site_of
        from gpu_node.onboarding.run import Onboarding, listed
        from gpu_node.onboarding.trust.host_keys import by_server
        from gpu_node.onboarding.trust.password import given
    request = Request(name or "", address, user, port, group)
    try:
        requests = [request] if file is None else listed(file, request)
        own, others = by_server(accept, [each.name for each in requests if not each.fingerprint])
        requests = [
            replace(each, fingerprint=own.get(each.name, each.fingerprint)) for each in requests
        ]
        options = Options(tuple(others), given(password_stdin), disable_password, dry)
        site, console = site_of(inventory), UserConsole(yes)
        return Onboarding(
            site, options, console, proof, partial(ask, again="run it again", ports=True)
        ).run(requests)
    except FAILURES as error:
        raise failure(error) from None
