"""`gpu-node restore`: put the configuration files of a node back as they were before a run."""

from __future__ import annotations

from functools import partial

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import failure
from gpu_node.inventories.errors import shown, worded


@click.command(short_help="Put a node's configuration files back as before a run.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@click.argument("node", shell_complete=completion.nodes)
@words.sudo_password
@click.option(
    "--run",
    metavar="ID",
    default="",
    help="Go back to before this run: later runs first, then it. Without it the last run alone.",
)
@click.option(
    "--skip-changed",
    is_flag=True,
    help="Leave files as they are that another program has changed since, and put the rest back.",
)
@click.option("--list", "listed", is_flag=True, help="List the runs of NODE, the last first.")
@click.option("--dry", is_flag=True, help="Show what would be put back; changes nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do it without asking.")
def restore(
    inventory: str, node: str, run: str, skip_changed: bool, listed: bool, dry: bool, yes: bool
) -> int:
    """Put the configuration files of NODE back as they were before the last run, or before --run.

    Each run keeps on the node, below /var/backups/gpu-node, what its files held. Files that it
    made are removed. Packages, wheels, modules and copies are listed with the command that takes
    them back. The restore is a run, too, and can be taken back. It refuses while a job runs, and
    where another program has changed a file since. A change of sshd, limits or authorized_keys
    stays only if a new session opens.

    \b
    Exit status:  0 put back, or nothing to put back (--dry, --list: shown)   1 otherwise
    Examples:     gpu-node restore inventories/lab.py a100-01 --list
                  gpu-node restore inventories/lab.py a100-01 --dry
                  gpu-node restore inventories/lab.py a100-01 --run 20261122T204829Z-0a1b2c
    """
    with loading():
        from gpu_node.cli.keeping import keep_run
        from gpu_node.deploy.console import UserConsole
        from gpu_node.deploy.restore.records import RUN_ID
        from gpu_node.deploy.restore.restoring import Asked, NoSuchRun, NotRestored
        from gpu_node.deploy.restore.restoring import restore as put_back
        from gpu_node.onboarding.errors import FAILURES
    if run and not RUN_ID.fullmatch(run):
        example = "the name of a run, such as 20261122T204829Z-0a1b2c"
        then = "--list shows those of the node"
        raise click.UsageError(f"--run: {worded(shown(run), '', example, then)}")
    try:
        keep = partial(keep_run, inventory, "restore")
        return put_back(
            Asked(inventory, node, run, skip_changed, dry, listed), UserConsole(yes), keep
        )
    except NotRestored as error:
        raise failure(error, node) from None
    except (NoSuchRun, *FAILURES) as error:
        raise failure(error) from None
