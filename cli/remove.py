"""`gpu-node remove`: take a node out of the cluster, without a change on it."""

from __future__ import annotations

from functools import partial

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import failure
from gpu_node.inventories.interrupt import LINE, Interrupted, report


@click.command(short_help="Remove a node from the cluster.")
@click.argument("name", shell_complete=completion.nodes)
@words.cluster_file
@words.sudo_password
@click.option("--dry", is_flag=True, help="Show what is removed from FILE.yml; changes nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do it without asking.")
def remove(name: str, inventory: str, dry: bool, yes: bool) -> int:
    """Remove the node NAME from the cluster: from FILE.yml and the files of the other nodes.

    Removes its key from their authorized_keys, its host key from their known_hosts, and its line
    from each /etc/hosts that gpu-node wrote. The node itself is left as it is. It also cancels an
    unfinished onboarding.

    \b
    Exit status:  0 no node knows it any more   1 otherwise, or FILE.yml has no such node
    Examples:     gpu-node remove v100-02 --inventory inventories/lab.yml
    """
    with loading():
        from gpu_node.cli.asking import ask
        from gpu_node.deploy.console import UserConsole
        from gpu_node.inventories.yaml.edit import EditError
        from gpu_node.onboarding.errors import FAILURES, FileError
        from gpu_node.onboarding.inventory_files import site_of
        from gpu_node.onboarding.removal import remove as take_out
    try:
        again = partial(ask, again="run it again")
        take_out(site_of(inventory), name, UserConsole(yes), again, dry)
    except (FileError, EditError) as error:
        raise failure(error) from None
    except FAILURES as error:
        raise failure(error, name) from None
    except Interrupted:
        report(f"{LINE}; run the same command to continue")
        return 1
    return 0
