"""Who trains, where a node has no such user: one cause for all that is asked as that user."""

import re

from gpu_node.facts.node import NodeState, UnreadSection

_MISSING = re.compile(r"exit 1: no user (\S+)")


def missing_user(state: NodeState) -> str:
    """Return the name of who should train here and is unknown; empty where there is such a user."""
    for each in state.unreadable:
        if each.section == "env.user" and (match := _MISSING.fullmatch(each.reason)):
            return match[1]
    return ""


def is_explained(unread: UnreadSection, state: NodeState) -> bool:
    """Whether a section could not be read because that user is missing.

    Our scripts, su (util-linux) and id (coreutils) have words for it.
    """
    name = missing_user(state)
    texts = (f"no user {name}", f"user {name} does not exist", f"{name}': no such user")
    return bool(name) and any(f"{each} " in f"{unread.reason} " for each in texts)
