"""A key that has a passphrase: the agent keeps it, and it is asked for once."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from gpu_node.deploy.console import UserConsole
from gpu_node.inventories.checks.files import is_encrypted
from gpu_node.inventories.errors import shown, worded
from gpu_node.onboarding.errors import Stopped

_ALLOWED = "a key without a passphrase, or one of an agent"


def without_passphrase(key: Path | None, console: UserConsole) -> Path | None:
    """Return the key to write into an inventory: None for one that the agent has by now.

    On a terminal, and where an agent runs, ssh-add asks for the passphrase. Stopped: there is
    neither, or ssh-add ended with an error.
    """
    if key is None or not is_encrypted(key):
        return key
    command = f"ssh-add {shlex.quote(str(key))}"
    if not console.is_attended or not os.environ.get("SSH_AUTH_SOCK"):
        lacks = "no agent" if console.is_attended else "no terminal to ask for it"
        start = "" if os.environ.get("SSH_AUTH_SOCK") else 'eval "$(ssh-agent)"; '
        why, then = f"encrypted with a passphrase, and {lacks}", f"{start}{command}; then no --key"
        raise Stopped(f"--key: {worded(shown(str(key)), why, _ALLOWED, then)}")
    console.say(f"{key} has a passphrase: {command} gives it to the agent, whose keys are used")
    try:
        code = subprocess.run(["ssh-add", key], check=False).returncode
    except OSError as error:
        raise Stopped(f"--key: {worded(str(error), '', _ALLOWED)}") from None
    if code:
        why = f"encrypted with a passphrase, and {command} ended with {code}"
        raise Stopped(f"--key: {worded(shown(str(key)), why, _ALLOWED)}")
    return None
