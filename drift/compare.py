"""Node against node: each fact's class says where nodes of one job may differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from drift.finding import Finding
from drift.quantity import limit, size
from facts.limits import Item
from facts.node import NodeState

UNREADABLE = "unreadable"
Class = Literal["must-equal", "per-model", "per-host"]


@dataclass(frozen=True)
class Fact:
    """A fact that is shown for each node and compared between nodes.

    `marked_by` names the findings, as `rule` or `rule:subject`, that say this value is wrong;
    `value` returns the text of the value, or None where it could not be read.
    """

    name: str
    comparison: Class
    marked_by: tuple[str, ...]
    value: Callable[[NodeState], str | None]

    def is_marked(self, findings: list[Finding]) -> bool:
        """Whether one of `findings` is about this fact."""
        names = {
            name for found in findings for name in (found.rule, f"{found.rule}:{found.subject}")
        }
        return not names.isdisjoint(self.marked_by)


class Difference(BaseModel):
    """A fact whose values differ; `drift` says whether they may not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fact: str
    comparison: Class = Field(alias="class")
    values: dict[str, str]
    drift: bool


def _shm_size(node: NodeState) -> str | None:
    if node.shm.mount is None or node.shm.usage is None:
        return None
    return size(node.shm.usage.size) if node.shm.mount.layers else "not mounted"


def _shm_fstab(node: NodeState) -> str | None:
    if node.shm.fstab is None:
        return None
    return ", ".join(line.size or "no size" for line in node.shm.fstab) or "no line"


def _shm_mode(node: NodeState) -> str | None:
    mode = node.shm.mode
    return None if mode is None else f"{mode.mode} {mode.uid}:{mode.gid}"


def _pair(item: Item) -> Callable[[NodeState], str | None]:
    def value(node: NodeState) -> str | None:
        if node.limits.session is None:
            return None
        pair = getattr(node.limits.session, item)
        return "/".join(limit(side, item != "nofile") for side in (pair.soft, pair.hard))

    return value


def _cmake(node: NodeState) -> str | None:
    if node.toolchain.cmake is None:
        return None
    first = node.toolchain.cmake.found[:1]
    return (first[0].version or "broken") if first else "none"


def _cmake_path(node: NodeState) -> str | None:
    if node.toolchain.cmake is None:
        return None
    first = node.toolchain.cmake.found[:1]
    return first[0].path if first else "none"


def _nr_open(node: NodeState) -> str | None:
    return None if node.limits.nr_open is None else str(node.limits.nr_open)


def _limit_fact(item: Item, *rules: str) -> Fact:
    return Fact(
        f"limits.{item}", "must-equal", (*rules, f"limits.not-effective:{item}"), _pair(item)
    )


FACTS: tuple[Fact, ...] = (
    Fact("shm.size", "per-model", ("shm.too-small", "shm.container"), _shm_size),
    Fact("shm.fstab", "per-model", ("shm.not-persistent",), _shm_fstab),
    Fact("shm.mode", "must-equal", ("shm.permissions",), _shm_mode),
    _limit_fact("nofile", "limits.nofile"),
    _limit_fact("memlock", "limits.memlock"),
    _limit_fact("stack", "limits.stack-unlimited"),
    Fact("limits.nr_open", "per-host", ("limits.above-nr-open",), _nr_open),
    Fact(
        "toolchain.cmake",
        "must-equal",
        ("toolchain.cmake-old", "toolchain.cmake-shadowed"),
        _cmake,
    ),
    Fact("toolchain.cmake_path", "per-host", (), _cmake_path),
    Fact("toolchain.os", "per-host", (), lambda node: node.toolchain.os),
    Fact("toolchain.kernel", "per-host", (), lambda node: node.toolchain.kernel),
)


def differences(nodes: Mapping[str, NodeState], models: Mapping[str, str]) -> list[Difference]:
    """Return the facts that differ between `nodes`; `models` gives each node's GPU model."""
    found = []
    for fact in FACTS:
        read = {name: fact.value(node) for name, node in nodes.items()}
        values = {name: value or UNREADABLE for name, value in read.items()}
        if len(set(values.values())) > 1 or (None in read.values() and len(read) > 1):
            drift = _is_drift(fact.comparison, read, models)
            found.append(
                Difference.model_validate(
                    {"fact": fact.name, "class": fact.comparison, "values": values, "drift": drift}
                )
            )
    return found


def _is_drift(
    comparison: Class, values: Mapping[str, str | None], models: Mapping[str, str]
) -> bool:
    """Whether nodes differ that may not; a value that could not be read equals nothing."""
    if comparison == "per-host":
        return False
    peers: dict[str, list[str | None]] = defaultdict(list)
    for name, value in values.items():
        peers["" if comparison == "must-equal" else models.get(name, "")].append(value)
    return any(
        len(group) > 1 and (None in group or len(set(group)) > 1) for group in peers.values()
    )
