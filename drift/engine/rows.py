"""Rows of YAML in the folders of the areas: how they are read, and what a mapping in them is."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from gpu_node.drift.engine.areas import folder
from gpu_node.facts.row_files import M, checked, load
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


@cache
def rows(area: str, file: str = "rules") -> Mapping[str, dict[str, Any]]:
    """Return the rows of drift/AREA/FILE.yml by their names; an area may have no such file."""
    return load(folder(area) / f"{file}.yml")


def row_of(of: type[M], name: str, file: str = "rules", **more: object) -> M | None:
    """Return the row of a rule, or of a fact, as its model; None where it has none."""
    area = name.partition(".")[0]
    row = rows(area, file).get(name)
    path = folder(area) / f"{file}.yml"
    return row if row is None else checked(of, path, name, {**row, **more})
