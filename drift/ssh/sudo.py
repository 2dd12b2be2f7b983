"""What to do where the SSH user is not root, and a fact needs root."""

import re

from gpu_node.facts.ask.sudo import AS_ROOT, is_refusal, line_for, why_refused
from gpu_node.facts.ask.via import FILES
from gpu_node.facts.node import ROOT_SECTIONS, NodeState, UnreadSection

# How sections of the probe, and what they run, show that only root can read something.
_CLOSED = re.compile(r"only root|root alone|is closed\b|Permission denied")
_ENVIRONMENT = "nccl.environment:"


def advice_on(unread: UnreadSection, state: NodeState, via: str) -> tuple[str, str] | None:
    """Return cause and fix where a section needs another user than the SSH user; else None."""
    user = state.limits.user
    if _is_unseen(unread):
        return _of_environment(unread.section.removeprefix(_ENVIRONMENT), state)
    if unread.section not in ROOT_SECTIONS or (user is not None and user.uid == 0):
        return None
    if is_refusal(unread.reason):
        refused = why_refused(unread.reason, ssh_user(state))
        return refused.reason, refused.fix
    if not _CLOSED.search(unread.reason):
        return None
    cause = f"the report asks as {ssh_user(state) or 'the SSH user'}, who is not root"
    refuses = ", and sudo refuses" if state.ssh.sudo_refusal is not None else ""
    return f"{cause}{refuses}", reading_as_root(state, via)


def reading_as_root(state: NodeState, via: str) -> str:
    """Return how a report whose answers came in a way reads what only root can read."""
    if via == FILES:
        return "run the script of gpu-node probe as root on the node"
    if state.ssh.sudo_refusal is not None:
        return "let sudo run, see ssh.sudo-refused"
    return becoming_root(ssh_user(state))


def unseen_environments(state: NodeState) -> list[str]:
    """Return the environments of which a closed folder hides whether they exist."""
    unseen = [each.section for each in state.unreadable if _is_unseen(each)]
    return [section.removeprefix(_ENVIRONMENT) for section in unseen]


def _is_unseen(unread: UnreadSection) -> bool:
    return unread.section.startswith(_ENVIRONMENT) and unread.reason.endswith(" is closed")


def _of_environment(prefix: str, state: NodeState) -> tuple[str, str]:
    """Return cause and fix of an environment below a folder that the SSH user cannot enter."""
    name = ssh_user(state) or "the SSH user"
    closed = {each.environment: each for each in state.env.closed or ()}
    place = "its folder"
    if prefix in closed:
        found = closed[prefix]
        place = f"{found.place} (mode {found.mode}, owner {found.owner})"
    return f"{name} cannot enter {place}: whether the environment exists is unknown", (
        f"in the inventory, name one that {name} and the training user can enter "
        f"(nccl.environments has {prefix}); if it exists, its owner can open {place} to them"
    )


def becoming_root(user: str) -> str:
    """Return how an SSH user without sudo becomes root."""
    allow = "write `ssh: {sudo: true}` into the inventory; if sudo asks for a password there"
    return (
        f"{allow}, give it (--ask-sudo-password), or {line_for(user)}; {AS_ROOT} "
        "(ssh: {user: root})"
    )


def no_root(state: NodeState) -> str:
    """Return why the SSH user of a node, who is not root, does not become root, and what helps."""
    user = ssh_user(state)
    if state.ssh.sudo_refusal is None:
        return f"{user} is not root: {becoming_root(user)}"
    refused = why_refused(state.ssh.sudo_refusal, user)
    return f"sudo refuses: {refused.reason}: {refused.fix}"


def ssh_user(state: NodeState) -> str:
    """Return the name of the SSH user; empty where it could not be read."""
    return state.limits.user.name if state.limits.user else ""
