"""The facts of a site's own checks: what each command printed."""

from collections.abc import Sequence

from gpu_node.drift.engine.fact import Fact, Row
from gpu_node.facts.node import NodeState
from gpu_node.facts.own import Same


def of_nodes(nodes: Sequence[NodeState]) -> tuple[Fact, ...]:
    """Return a fact for each check that a node was asked; `same` is compared as the nodes say."""
    asked = {name: each.same for node in nodes for name, each in node.own.answers.items()}
    return tuple(own_fact(name, same) for name, same in sorted(asked.items()))


def own_fact(name: str, same: Same) -> Fact:
    """Return the fact of a check; one that fails has no value."""

    def value(node: NodeState) -> str | None:
        answer = node.own.answers.get(name)
        return None if answer is None or answer.code != 0 else " ".join(answer.text.split())

    def applies(node: NodeState) -> bool:
        return name in node.own.answers

    marked = f"own.wrong:{name}"
    return Fact(
        f"own.{name}",
        Row(same=same, rule="own.differs" if same else "", marked_by=(marked,)),
        value,
        applies,
        about=name,
    )
