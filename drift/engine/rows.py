"""Rows of YAML in the folders of the areas: how they are read, and what a mapping in them is."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

from gpu_node.drift.engine.areas import folder
from gpu_node.inventories.wanted import NodeWanted

T = TypeVar("T")
Several = Annotated[
    tuple[T, ...],
    BeforeValidator(lambda given: given if isinstance(given, list | tuple) else [given]),
]


class Part(BaseModel):
    """A mapping in a row, or the row; it has no other key."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def part_of(whole: object, path: str) -> object:
    """Return what is at a path of names, such as shm.size; None where a part is missing."""
    for name in path.split("."):
        whole = getattr(whole, name, None)
    return whole


def has_key(wanted: NodeWanted, key: str) -> bool:
    """Whether a key of the inventory has a value; a switch is to be on."""
    value = part_of(wanted, key)
    return value is not None and value is not False


_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Parser):  # type: ignore[misc]
    """YAML takes the last of two keys that are the same: here it is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> object:
        made = super().construct_mapping(node, deep=deep)
        if len(made) < len(node.value):
            raise ValueError(f"a key is in one mapping twice{node.start_mark}")
        return made


@cache
def rows(area: str, file: str = "rules") -> Mapping[str, dict[str, Any]]:
    """Return the rows of drift/AREA/FILE.yml by their names; an area may have no such file."""
    path = folder(area) / f"{file}.yml"
    if not path.exists():
        return {}
    loaded: dict[str, dict[str, Any]] = yaml.load(path.read_text("utf-8"), Loader=_Loader)  # noqa: S506 (a subclass of the safe loader)
    return loaded
