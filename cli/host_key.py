"""`gpu-node host-key`: a node's pinned and offered host keys, and acknowledging a new one."""

from __future__ import annotations

import click

from gpu_node.cli import completion, words
from gpu_node.cli.loading import loading
from gpu_node.cli.usage import failure


@click.command(short_help="Show or pin the host key of a node.")
@click.argument("inventory", callback=words.inventory, shell_complete=completion.files)
@click.argument("node", shell_complete=completion.nodes)
@click.option("--accept", metavar="SHA256:...", help="Pin the offered key with this fingerprint.")
def host_key(inventory: str, node: str, accept: str | None) -> int:
    """Show which host key is pinned for NODE and which it offers; pin another one with --accept.

    INVENTORY is pyinfra's file (lab.py) or the cluster file (lab.yml). A key is pinned only if its
    fingerprint is the given one. Read the fingerprint on the console of the node:
    ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub. Other lines of known_hosts stay as they are.

    \b
    Exit status:  0 the same, or pinned   2 they differ, or none is pinned   1 cannot find out
    Examples:     gpu-node host-key inventories/lab.py v100-01
                  gpu-node host-key inventories/lab.py v100-01 --accept SHA256:...
    """
    with loading():
        from gpu_node.onboarding.errors import Stopped
        from gpu_node.onboarding.trust.pinning import show_or_pin
    try:
        return show_or_pin(inventory, node, accept)
    except Stopped as error:
        raise failure(error) from None
