"""A site's own checks: what is wrong, and what to do about a command that gave no answer."""

from gpu_node.drift.engine.areas import Hooks
from gpu_node.facts.node import NodeState, UnreadSection


def _advises(unread: UnreadSection, _state: NodeState, _via: str) -> tuple[str, str] | None:
    if unread.area != "own":
        return None
    return (
        "a command of own_checks has 10 s, with all that it starts and that keeps its output open, "
        "and may print 4 KiB",
        "run it on the node, and have it end sooner or print less; what it leaves in the "
        "background needs >/dev/null 2>&1",
    )


HOOKS = Hooks(advises=_advises)
