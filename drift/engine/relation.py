"""Relations: a rule about one value of a node is a row, and needs no function."""

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, Field, model_validator
from typing_extensions import Self

from gpu_node.drift.engine.rows import Part, part_of
from gpu_node.drift.engine.subject import Path, Prefix, Subject, Thing
from gpu_node.facts.node import NodeState

_SUBJECTS: dict[str, Callable[[str], Subject]] = {
    "thing": Thing,
    "path": Path,
    "environment": Prefix,
}
_HOLDS: dict[str, Callable[[Any, Any], object]] = {
    "present": lambda found, _: found,
    "absent": lambda found, _: not found,
    "equals": operator.eq,
    "at-least": operator.ge,
    "at-most": operator.le,
    "one-of": lambda found, to: found in to,
    "none-of": lambda found, to: found not in to,
}


def _types_at(path: str) -> set[object]:
    """Return the types of what a path of names leads to: of a list or mapping, of what is in it."""
    kinds: set[object] = {NodeState}
    for name in path.split("."):
        models = [each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)]
        found = [kind for each in models if (kind := _type_of(each, name)) is not None]
        if not found:
            raise ValueError(f"of: {path}: no {name} in the state of a node")
        kinds = {part for kind in found for part in _parts(kind)}
    return kinds


def _type_of(model: type[BaseModel], name: str) -> object:
    """Return the type of a field or a property of a model; None where it has neither."""
    if name in model.model_fields:
        return model.model_fields[name].annotation
    known = getattr(model, name, None)
    return get_type_hints(known.fget)["return"] if isinstance(known, property) else None


def _parts(kind: object) -> Iterator[object]:
    """Yield the types that a type stands for; None is what was not read."""
    inner = get_args(kind)
    inner = inner[-1:] if getattr(kind, "__origin__", None) in (dict, Mapping) else inner
    for each in inner:
        yield from _parts(each)
    if not inner and kind not in (type(None), ...):
        yield kind


class Relation(Part):
    """What a value of a node must be, such as `is: at-least` with `to: 1048576`.

    `of` is its path in the state: of a list each entry is judged, of a mapping each value by its
    name. A value that was not read is a finding in any case, and not judged here.
    """

    of: str
    holds: Literal["present", "absent", "equals", "at-least", "at-most", "one-of", "none-of"] = (
        Field(alias="is")
    )
    to: Any = None
    # What the report calls it, and what kind of thing that is; empty: the entry itself.
    subject: str = ""
    kind: Literal["thing", "path", "environment"] = "thing"
    # {} is the value.
    found: str = "{}"
    wanted: str

    @model_validator(mode="after")
    def _has_a_value(self) -> Self:
        """Refuse a path that leads to no value of a node, and an order of what has none."""
        kinds = _types_at(self.of)
        if self.holds in ("at-least", "at-most") and not kinds <= {int, float}:
            names = ", ".join(sorted(getattr(kind, "__name__", repr(kind)) for kind in kinds))
            raise ValueError(f"is: {self.holds}: {self.of} is not always a number: {names}")
        if self.holds in ("at-least", "at-most") and not isinstance(self.to, int | float):
            raise ValueError(f"to: {self.to!r} is not a number")
        return self

    def broken(self, node: NodeState) -> Iterator[tuple[Subject, str, str]]:
        """Yield the subject, what is found and what is wanted, where the relation does not hold."""
        value = part_of(node, self.of)
        named: Mapping[str, Any] = {self.subject: value}
        if isinstance(value, Mapping):
            named = value
        elif isinstance(value, tuple):
            named = {str(each): each for each in value}
        for name, found in named.items():
            if found is not None and not _HOLDS[self.holds](found, self.to):
                yield _SUBJECTS[self.kind](name), self.found.format(found), self.wanted
