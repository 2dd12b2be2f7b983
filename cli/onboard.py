"""`gpu-node onboard`: new servers, from an address and a password to proved members."""

from __future__ import annotations

import click

from cli import words
from cli.loading import loading


@click.command()
@click.argument("name", required=False, callback=words.name)
@click.argument("address", required=False, callback=words.address)
@click.option("--inventory", required=True, metavar="FILE.yml", help="The cluster file.")
@click.option("--from", "file", metavar="FILE.csv", help="Many servers: see below.")
@click.option(
    "--user",
    metavar="USER",
    callback=words.user,
    help="Who logs in; the inventory's ssh user, or root.",
)
@click.option("--port", type=click.IntRange(1, 65535), metavar="PORT", help="Of its sshd.")
@click.option(
    "--group",
    metavar="GROUP",
    callback=words.group,
    help="Its group; else the one for its GPUs.",
)
@click.option(
    "--accept-host-key",
    "accept",
    multiple=True,
    callback=words.fingerprints,
    metavar="SHA256:...",
    help="The host key that it must have; else you are asked.",
)
@click.option("--password-stdin", is_flag=True, help="The password is the first line of stdin.")
@click.option("--disable-password", is_flag=True, help="Its sshd then takes no passwords any more.")
@click.option(
    "--verify",
    "proof",
    type=click.Choice(["auto", "nccl", "gloo", "no"]),
    default="auto",
    show_default=True,
    help="What the job at the end talks by; no: no job is run.",
)
@click.option("--dry", is_flag=True, help="Look, and say what would be done; changes nothing.")
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

    Its host key is shown and confirmed, and pinned; this machine's key is let in; then come a
    pre-flight, its entry in FILE.yml, the mesh with the others, the whole deploy, a report and a
    job. The password comes from a prompt, from GPU_NODE_PASSWORD or from stdin, and is kept
    nowhere. What was stopped goes on when it is run again: ADDRESS need not be said again.

    FILE.csv has a line a server: name,address[,group[,fingerprint]], or a first line that names
    its columns. A fingerprint is of the host key that this server must have.

    \b
    Exit status:  0 a member, and proved unless --verify no (--dry: could be one)   1 otherwise
    Examples:     gpu-node onboard v100-02 10.168.144.6 --inventory inventories/lab.yml
                  gpu-node onboard --from new.csv --inventory inventories/lab.yml -y
    """
    if bool(name) == (file is not None):
        raise click.UsageError("give the NAME of a server, or --from FILE.csv")
    if file is not None and group:
        raise click.UsageError("--group: with --from the file says the groups")
    with loading():
        from cli.onboarding import Onboarding, listed
        from onboarding.admission import Terms, Wish
        from onboarding.failures import FAILURES
        from onboarding.password import given
        from onboarding.screen import Screen
        from onboarding.site import site_of
    wish = Wish(name or "", address, user, port, group)
    try:
        wishes = [wish] if file is None else listed(file, wish)
        terms = Terms(accept, given(password_stdin), disable_password, dry)
        return Onboarding(site_of(inventory), terms, Screen(yes), proof).run(wishes)
    except FAILURES as error:
        raise click.ClickException(str(error)) from None
