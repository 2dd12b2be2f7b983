"""Relations: a rule about one value of a node is a row, and needs no function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

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
}


class Relation(Part):
    """What a value of a node must be, such as `is: at-least` with `to: 1048576`.

    `of` is its path in the state: of a list each entry is judged, of a mapping each value by its
    name. A value that was not read is a finding in any case, and not judged here.
    """

    of: str
    holds: Literal["present", "absent", "equals", "at-least", "at-most", "one-of"] = Field(
        alias="is"
    )
    to: Any = None
    # What the report calls it, and what kind of thing that is; empty: the entry itself.
    subject: str = ""
    kind: Literal["thing", "path", "environment"] = "thing"
    # {} is the value.
    found: str = "{}"
    wanted: str

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
