"""`gpu-node remove`: a node goes out of the cluster, and stays as it is."""

from __future__ import annotations

import click

from cli.interrupt import LINE, say
from cli.loading import loading


@click.command()
@click.argument("name")
@click.option("--inventory", required=True, metavar="FILE.yml", help="The cluster file.")
@click.option("--dry", is_flag=True, help="Show what goes out of FILE.yml; changes nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do it without asking.")
def remove(name: str, inventory: str, dry: bool, yes: bool) -> int:
    """Take the node NAME out of the cluster: out of FILE.yml, and of what the others know.

    Its key goes out of every authorized_keys, its host key out of every known_hosts, its line out
    of every /etc/hosts that gpu-node wrote. The node itself is left as it is.

    \b
    Exit status:  0 no node knows it any more   1 otherwise, or FILE.yml has no such node
    Examples:     gpu-node remove v100-02 --inventory inventories/lab.yml
    """
    with loading():
        from onboarding.failures import FAILURES
        from onboarding.removal import remove as take_out
        from onboarding.running import Interrupted
        from onboarding.screen import Screen
        from onboarding.site import site_of
    try:
        take_out(site_of(inventory), name, Screen(yes), dry)
    except FAILURES as error:
        raise click.ClickException(f"{name}: {error}") from None
    except Interrupted:
        say(f"{LINE}; the same command goes on from there")
        return 1
    return 0
