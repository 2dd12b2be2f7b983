"""The register of areas: each room has a folder for each name and loads what it needs from it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

# In the order of a report.
AREAS = (
    "driver",
    "shm",
    "limits",
    "toolchain",
    "nccl",
    "ssh",
    "network",
    "env",
    "workspace",
    "clock",
    "host",
)


def area_folder(room: str, area: str, needed: str) -> ModuleType:
    """Import the folder of an area; without it, the error says which file is `needed`."""
    name = f"gpu_node.{room}.{area}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(
            f"facts/areas.py registers the area {area}, but {room}/{area}/__init__.py does not "
            f"exist; add it: {needed}"
        ) from None
