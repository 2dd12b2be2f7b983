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
    """Whether a section could not be read because there is no such user.

    Our scripts, su (util-linux) and id (coreutils) say so.
    """
    name = re.escape(missing_user(state))
    said = rf"no user {name}\b|\buser {name} does not exist\b|\b{name}'?: no such user\b"
    return bool(name) and re.search(said, unread.reason) is not None
