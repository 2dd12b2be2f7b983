"""All facts of the report: those of each area's module `shown`, where it has one."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_node.drift.engine.areas import modules
from gpu_node.drift.engine.fact import Fact
from gpu_node.facts.node import NodeState

_MODULES = modules("shown")
FACTS: tuple[Fact, ...] = tuple(
    sorted((fact for module in _MODULES for fact in module.FACTS), key=lambda fact: fact.is_last)
)


def facts_of(nodes: Iterable[NodeState]) -> tuple[Fact, ...]:
    """Return the facts about what only these nodes have, such as each package of environments."""
    nodes = tuple(nodes)
    several = (module.of_nodes(nodes) for module in _MODULES if hasattr(module, "of_nodes"))
    return tuple(fact for facts in several for fact in facts)
