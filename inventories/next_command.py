"""The commands of gpu-node that a message names as the next ones."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gpu_node.inventories.connection.sudo import SUDO

# What has a command ask for sudo's password.
ASKING = "--ask-sudo-password"


def deploy_command(inventory: str, options: Sequence[str] = ()) -> str:
    """Return the shell command that repairs the nodes of an inventory."""
    return next_command("deploy", inventory, *options)


def next_command(*words: str) -> str:
    """Return a shell command of gpu-node that asks for sudo's password where this one did."""
    asking = [ASKING] if SUDO.is_given else []
    return shlex.join(["gpu-node", *words, *asking])
