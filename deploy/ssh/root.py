"""Whether the deploy can become root on a node: as the SSH user, or by sudo."""

from pyinfra.api import Host

from gpu_node.drift.ssh.sudo import becoming_root
from gpu_node.facts.ask.execute import SSH_USER, NoAnswer, execute
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.ask.sudo import why_refused
from gpu_node.facts.node import NodeState
from gpu_node.inventories.connection.commands import password_shown
from gpu_node.inventories.connection.sudo import SUDO

SUDO_SECONDS = 20
# pyinfra would treat sudo's message as a request to prompt for the password.
_ASK_SUDO = """
output=$(LC_ALL=C sudo -n true 2>&1) && exit 0
printf '%s\\n' "$output" | sed 's/^/refused: /'
exit 1
"""
# pyinfra's ways to another user.
_BECOMING = ("_sudo", "_su_user", "_doas")


def require_root(host: Host, state: NodeState) -> None:
    """Raise ProbeError if a run cannot become root on a node."""
    _require_way(host, state)
    require_sudo(host)


def _require_way(host: Host, state: NodeState) -> None:
    """Raise ProbeError if the SSH user is not root, and the inventory has no way to become root."""
    user, data = state.limits.user, host.data.dict()
    if user is None or user.uid == 0 or any(data.get(key) for key in _BECOMING):
        return
    raise ProbeError(
        f"the deploy needs root, and {user.name} is not root; nothing was changed: "
        f"{becoming_root(user.name)}"
    )


def require_sudo(host: Host) -> None:
    """Raise ProbeError if sudo refuses, or the inventory has a password for it.

    The user is not asked for one: the prompt would come from the node. pyinfra would end in a
    traceback, or each operation with sudo's message.
    """
    data = host.data.dict()
    if problem := password_shown(data):
        raise ProbeError(f"{problem}; nothing was changed")
    if not data.get("_sudo"):
        return
    asked, rights = (_ASK_SUDO, SSH_USER) if not SUDO.is_given else ("true", {"_sudo": True})
    try:
        done, output = execute(host.connector, asked, SUDO_SECONDS, rights)
    except NoAnswer as error:
        raise ProbeError(f"sudo: {error}; nothing was changed") from error
    if done:
        return
    words = "\n".join(line.removeprefix("refused: ") for line in output.output_lines)
    refused = why_refused(words, data.get("ssh_user") or "")
    raise ProbeError(f"{refused.reason} ({refused.words}); nothing was changed: {refused.fix}")
