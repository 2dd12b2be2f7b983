"""All facts of the report, in the order of their rows, and what nodes have in words."""

from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import NamedTuple

from gpu_node.drift.engine.areas import modules
from gpu_node.drift.engine.fact import SHOWN, Fact, shows
from gpu_node.drift.engine.rows import rows
from gpu_node.facts.areas import AREAS
from gpu_node.facts.node import NodeState

_LONGEST = 120
_MODULES = modules("shown")


def _in_order() -> tuple[Fact, ...]:
    """Return the facts in the order of their rows; a ValueError says what does not fit."""
    listed = {name: row for area in AREAS for name, row in rows(area, "shown").items()}
    for name, row in listed.items():
        if "of" in row and name not in SHOWN:
            shows(name)(str)
    if missing := listed.keys() - SHOWN.keys():
        raise ValueError(f"no path and no function returns the value of these rows: {missing}")
    return tuple(sorted((SHOWN[name] for name in listed), key=lambda fact: fact.row.last))


FACTS = _in_order()


def facts_of(nodes: Iterable[NodeState]) -> tuple[Fact, ...]:
    """Return the facts about what only these nodes have, such as each package of environments."""
    nodes = tuple(nodes)
    several = (module.of_nodes(nodes) for module in _MODULES if hasattr(module, "of_nodes"))
    return tuple(fact for facts in several for fact in facts)


class Has(NamedTuple):
    """What a node has, or lacks.

    `starts`: whether a job can start with it, where no finding of `rule`, which may be an area,
    says so; None: unknown. `lacks`: what stops it, in other words.
    """

    words: str
    starts: bool | None = True
    rule: str = ""
    lacks: str = ""


def kind(node: NodeState, elsewhere: str = "") -> list[Has]:
    """Return what a node has, the areas in their order.

    `elsewhere` has the environments with a PyTorch that the probe did not ask.
    """
    return [each for module in _modules() for each in module.kind(node, elsewhere)]


@cache
def _modules() -> list[ModuleType]:
    return modules("kind")


def value(name: str, node: NodeState) -> str | None:
    """Return the text of a fact's value, as much as has room in a line."""
    found = SHOWN[name].value(node)
    return found if found is None else found[:_LONGEST]
