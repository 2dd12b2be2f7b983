"""Who trains, where a node has no such user: one cause for all that is asked as that user."""

import re

from gpu_node.facts.node import NodeState, UnreadSection

_MISSING = re.compile(r"exit 1: no user (\S+)")
_SSH = ("account", "authorized", "known", "logins")
# What of a node is read as the user who trains, or in that user's home.
_ASKED = (
    *("env.user", "env.launcher", "env.bashrc", "env.settings", "env.conf", "env.processes"),
    *("env.places", "env.prints", "env.proxies"),
    *(f"ssh.{each}" for each in _SSH),
    "nccl.discovered",
    "limits.trainer",
)


def missing_user(state: NodeState) -> str:
    """Return the name of who should train here and is unknown; empty where there is such a user."""
    for each in state.unreadable:
        if each.section == "env.user" and (match := _MISSING.fullmatch(each.reason)):
            return match[1]
    return ""


def is_explained(unread: UnreadSection, state: NodeState) -> bool:
    """Whether a section could not be read because there is no such user."""
    return unread.section in _ASKED and bool(missing_user(state))
