"""What to do where the SSH user is not root, and a fact needs root."""

from __future__ import annotations

import re

from gpu_node.facts.ask.sudo import AS_ROOT, is_refusal, line_for, why_refused
from gpu_node.facts.node import ROOT_SECTIONS, NodeState, UnreadSection

# How sections of the probe, and what they run, show that only root can read something.
_CLOSED = re.compile(r"only root|root alone|is closed\b|Permission denied")


def advice_on(unread: UnreadSection, state: NodeState) -> tuple[str, str] | None:
    """Return cause and fix where a section needs another user than the SSH user; else None."""
    user = state.limits.user
    if unread.section.startswith("nccl.environment:") and unread.reason.endswith(" is closed"):
        name = ssh_user(state) or "the SSH user"
        return f"{name} cannot enter it", (
            f"name an environment that {name} and the training user can enter, or open its folders "
            "to them"
        )
    if unread.section not in ROOT_SECTIONS or (user is not None and user.uid == 0):
        return None
    if is_refusal(unread.reason):
        refused = why_refused(unread.reason, ssh_user(state))
        return refused.reason, refused.fix
    if not _CLOSED.search(unread.reason):
        return None
    cause = f"the report asks as {ssh_user(state) or 'the SSH user'}, who is not root"
    if state.ssh.sudo_refusal is not None:
        return f"{cause}, and sudo refuses", "let sudo run, see ssh.sudo-refused"
    return cause, becoming_root(ssh_user(state))


def becoming_root(user: str) -> str:
    """Return how an SSH user without sudo becomes root."""
    allow = "write `ssh: {sudo: true}` into the inventory; if sudo asks for a password there"
    return (
        f"{allow}, give it (--ask-sudo-password), or {line_for(user)}; {AS_ROOT} "
        "(ssh: {user: root})"
    )


def ssh_user(state: NodeState) -> str:
    """Return the name of the SSH user; empty where it could not be read."""
    return state.limits.user.name if state.limits.user else ""
