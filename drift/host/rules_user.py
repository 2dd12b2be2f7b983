"""Host rule about the training user: the same ids and home as on the other nodes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.env.bashrc import is_network_home
from gpu_node.drift.ranges import ranges
from gpu_node.facts.node import NodeState


@check("host.user-differs")
def user_differs(at: At) -> Iterator[Fault]:
    by_value = at.nodes.once(_by_value)
    shares = bool(at.node.host.mounts and at.node.host.mounts.found)
    for subject, value in _of(at.node).items():
        nodes = by_value.get(subject, {})
        same, others = nodes.get(value, []), {each: nodes[each] for each in nodes if each != value}
        usual = max(others, key=lambda each: len(others[each]), default=value)
        if usual == value or len(others[usual]) < len(same):
            continue
        is_id = not subject.startswith("home")
        yield Fault(
            subject=subject,
            found=value,
            wanted=f"{usual}, as on {ranges(others[usual])}",
            severity="info" if is_id and not shares and not is_network_home(at.node.env) else None,
        )


def _of(state: NodeState) -> dict[str, str]:
    """Return the values of a node's training user that others must have, each by its name."""
    ids, user = state.limits.user, state.env.user
    found = {f"home of {user.name}": user.home} if user else {}
    if ids and ids.gids:
        found |= {f"uid of {ids.name}": str(ids.uid), f"gid of {ids.name}": str(ids.gids[0])}
    return found


def _by_value(nodes: Nodes) -> Mapping[str, dict[str, list[str]]]:
    """Return the nodes by the name of a value, and by the value."""
    made: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for name, state in nodes.states.items():
        for subject, value in _of(state).items():
            made[subject].setdefault(value, []).append(name)
    return made
