"""sh that runs a script as the training user, who may not be the SSH user."""

import shlex

from gpu_node.facts.probe.shell import assigned, shell

AS_USER = shell("probe/as_user")
HOME = shell("probe/home")
# For Section.shared, and as the beginning of a command that uses `as_user`; it needs $user.
SHARED = ("gn_as_user", AS_USER)
USE = 'eval "$gn_as_user"\n'


def as_training_user(user: str, script: str) -> str:
    """Return sh that runs a script as the training user; empty for the SSH user."""
    return f"{assigned(user=user)}{AS_USER}as_user {shlex.quote(script)}"
