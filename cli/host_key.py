"""`gpu-node host-key`: a node's pinned and offered host keys, and acknowledging a new one."""

from __future__ import annotations

import click

from cli.loading import loading
from cli.words import require_file


@click.command()
@click.argument("inventory")
@click.argument("node")
@click.option("--accept", metavar="SHA256:...", help="Pin the offered key with this fingerprint.")
def host_key(inventory: str, node: str, accept: str | None) -> int:
    """Show which host key is pinned for NODE and which it offers; pin another one with --accept.

    A key is pinned only where its fingerprint is the one that is given: take it from the node's own
    console, ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub. Of the known_hosts file of INVENTORY
    nothing else is touched.

    \b
    Exit status:  0 the same, or pinned   2 they differ, or none is pinned   1 could not tell
    Examples:     gpu-node host-key inventories/lab.py v100-01
                  gpu-node host-key inventories/lab.py v100-01 --accept SHA256:...
    """
    require_file(inventory)
    with loading():
        from cli.pinning import show_or_pin
    return show_or_pin(inventory, node, accept)
