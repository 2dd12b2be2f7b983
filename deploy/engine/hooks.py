"""What the engine calls in the areas of this room, of which it names none itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec

from pyinfra.api import Host

from gpu_node.deploy.engine.plan import Plan
from gpu_node.facts.areas import AREAS, area_folder
from gpu_node.facts.node import NodeState


@dataclass(frozen=True)
class Hooks:
    """What an area adds to a run beside its steps: `HOOKS` in deploy/AREA/__init__.py."""

    # Settles what an interrupted run has left on a node, before anything else; whether it did.
    settle: Callable[[Host, NodeState], bool] = lambda host, state: False
    # Raises ProbeError if a run cannot change a node.
    require: Callable[[Host, NodeState], None] = lambda host, state: None
    # Whether a run changes a node although no finding is fixable.
    changes: Callable[[Plan], bool] = lambda plan: False
    # Returns the programs that may hold a GPU while a script disturbs jobs in a way that it names.
    harmless: Callable[[str], tuple[str, ...]] = lambda disturbs: ()
    # The variables that scripts get by their line `# Given: NAME ...`.
    given: Mapping[str, str] = field(default_factory=dict)


@cache
def hooks() -> tuple[Hooks, ...]:
    """Return the hooks of the areas that have some, in the order of the register."""
    there = [name for name in AREAS if find_spec(f"gpu_node.deploy.{name}")]
    folders = [area_folder("deploy", name, "the area's steps") for name in there]
    return tuple(folder.HOOKS for folder in folders if hasattr(folder, "HOOKS"))
