"""The areas of this room: their modules, and what the engine asks them, of which it names none."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from gpu_node.drift.engine.subject import Subject
from gpu_node.facts.areas import AREAS, area_folder
from gpu_node.facts.node import NodeState, UnreadSection


@dataclass(frozen=True)
class Hooks:
    """What an area adds to a judgement beside its rules: `HOOKS` in drift/AREA/__init__.py."""

    # The beginnings of sections that only rules read which need a key of the area.
    only_named: tuple[str, ...] = ()
    # Whether a finding of the area says why a section of any area could not be read.
    explains: Callable[[UnreadSection, NodeState], bool] = lambda section, state: False
    # Returns cause and fix of a section of any area that could not be read, from how the answers
    # came; None: unknown.
    advises: Callable[[UnreadSection, NodeState, str], tuple[str, str] | None] = lambda *_: None
    # The rules, and the sections, that count on a node without GPUs for jobs (`gpu: none`); None:
    # all of the area.
    of_cpu_nodes: tuple[str, ...] | None = None
    # Whether a finding is about what the inventory does not name: it is not repaired.
    is_unnamed: Callable[[Subject, NodeState], bool] = lambda about, state: False
    # Whether a node is surely a container: its host has its hardware, its clock and its mounts.
    is_contained: Callable[[NodeState], bool] = lambda state: False
    # Whether a finding is about what no job is known to use: it stops none.
    is_aside: Callable[[Subject, NodeState], bool] = lambda about, state: False


_NONE = Hooks()


def _package(area: str) -> ModuleType:
    return area_folder("drift", area, "an empty file, rules.yml and rules.py beside it")


def folder(area: str) -> Path:
    """Return the folder of an area."""
    return Path(*_package(area).__path__)


def modules(beginning: str) -> list[ModuleType]:
    """Import the modules of all areas whose names begin so, and return them in the areas' order."""
    return [
        import_module(f"{package.__name__}.{module.name}")
        for package in map(_package, AREAS)
        for module in iter_modules(package.__path__)
        if module.name.startswith(beginning)
    ]


@cache
def hooks() -> dict[str, Hooks]:
    """Return the hooks of the areas that have some, in the order of the register."""
    packages = {area: _package(area) for area in AREAS}
    return {area: each.HOOKS for area, each in packages.items() if hasattr(each, "HOOKS")}


def hooks_of(area: str) -> Hooks:
    """Return the hooks of an area."""
    return hooks().get(area, _NONE)
