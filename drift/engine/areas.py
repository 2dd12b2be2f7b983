"""The areas of this room: their modules, and what the engine asks them, of which it names none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from gpu_node.drift.engine.subject import Subject
from gpu_node.facts.areas import AREAS, area_folder
from gpu_node.facts.node import NodeState, UnreadSection


@dataclass(frozen=True)
class Hooks:
    """What an area adds to a judgement beside its rules: `HOOKS` in drift/AREA/__init__.py."""

    # The key of the inventory that a person sets first; empty: the name of the area.
    key: str = ""
    # The beginnings of sections that only rules read which need a key of the area.
    only_named: tuple[str, ...] = ()
    # Whether a finding of the area says why a section of any area could not be read.
    explains: Callable[[UnreadSection, NodeState], bool] = lambda section, state: False
    # Returns cause and fix of a section of any area that could not be read; None: unknown.
    advises: Callable[[UnreadSection, NodeState], tuple[str, str] | None] = lambda section, state: (
        None
    )
    # The rules, and the sections, that count on a node without GPUs for jobs (`gpu: none`); None:
    # all of the area.
    of_cpu_nodes: tuple[str, ...] | None = None
    # Whether a finding is about what the inventory does not name: it is not repaired.
    is_unnamed: Callable[[Subject, NodeState], bool] = lambda about, state: False


_NONE = Hooks()


def _folders() -> list[ModuleType]:
    return [area_folder("drift", area, "an empty file, and rules.py beside it") for area in AREAS]


def modules(beginning: str) -> list[ModuleType]:
    """Import the modules of all areas whose names begin so, and return them in the areas' order."""
    return [
        import_module(f"{folder.__name__}.{module.name}")
        for folder in _folders()
        for module in iter_modules(folder.__path__)
        if module.name.startswith(beginning)
    ]


@cache
def hooks() -> dict[str, Hooks]:
    """Return the hooks of the areas that have some, in the order of the register."""
    folders = zip(AREAS, _folders(), strict=True)
    return {area: folder.HOOKS for area, folder in folders if hasattr(folder, "HOOKS")}


def hooks_of(area: str) -> Hooks:
    """Return the hooks of an area."""
    return hooks().get(area, _NONE)
