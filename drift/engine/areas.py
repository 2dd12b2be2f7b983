"""The modules of the areas in this room, by the beginning of their names."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from gpu_node.facts.areas import AREAS, area_folder


def modules(beginning: str) -> list[ModuleType]:
    """Import the modules of all areas whose names begin so, and return them in the areas' order."""
    needed = "an empty file, and rules.py beside it"
    folders = [area_folder("drift", area, needed) for area in AREAS]
    return [
        import_module(f"{folder.__name__}.{module.name}")
        for folder in folders
        for module in iter_modules(folder.__path__)
        if module.name.startswith(beginning)
    ]
