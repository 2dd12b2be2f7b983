"""NCCL: what is wrong, and what the rules compute with."""

from gpu_node.drift.engine.areas import Hooks
from gpu_node.drift.engine.subject import Subject
from gpu_node.facts.node import NodeState, UnreadSection


def _is_aside(about: Subject, state: NodeState) -> bool:
    """Whether it is about one of several environments that conda's list alone names."""
    found = state.nccl.discovered
    return len(found) > 1 and found.get(getattr(about, "environment", None) or "") == "conda"


def _advises(unread: UnreadSection, _state: NodeState, _via: str) -> tuple[str, str] | None:
    if unread.area != "nccl" or "No module named" not in unread.reason:
        return None
    return ("python3-minimal lacks modules of Python's own", "install the package python3")


HOOKS = Hooks(
    advises=_advises,
    # An environment that the probe has found without the inventory.
    of_cpu_nodes=(),
    is_aside=_is_aside,
    is_unnamed=lambda about, state: getattr(about, "environment", None) in state.nccl.discovered,
)
