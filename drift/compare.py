"""Node against node: each fact's class says where nodes of one job may differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping

from pydantic import BaseModel, ConfigDict, Field

from drift.compared import FACTS, Class, Fact, package_fact, package_facts
from drift.environments import pinned_names
from drift.finding import Finding
from facts.node import NodeState
from inventories.schema import NodeWanted

UNREADABLE = "unreadable"


class Difference(BaseModel):
    """A fact whose values differ; `drift` says whether they may not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fact: str
    comparison: Class = Field(alias="class")
    values: dict[str, str]
    drift: bool
    # Whether values that were read make it drift, not only some that could not be read; no part of
    # the JSON report.
    certain: bool = Field(default=True, exclude=True)

    @property
    def is_known(self) -> bool:
        """Whether every value could be read."""
        return UNREADABLE not in self.values.values()


def settled(
    wanted: Mapping[str, NodeWanted], findings: Mapping[str, list[Finding]]
) -> frozenset[str]:
    """Return the facts that are right on every node by its own inventory entry.

    Where the inventory says what is wanted, that decides: a limit that is higher than wanted on one
    node is no drift, and no deploy would lower it. Where it says nothing, the nodes are compared.
    """
    facts = (*FACTS, *map(package_fact, pinned_names(wanted.values())))
    return frozenset(
        fact.name
        for fact in facts
        if all(fact.is_managed(wish) for wish in wanted.values())
        and not any(fact.is_marked(found) for found in findings.values())
    )


def differences(
    nodes: Mapping[str, NodeState],
    models: Mapping[str, str],
    right: Container[str] = frozenset(),
) -> list[Difference]:
    """Return the facts that differ between `nodes`.

    `models` gives each node's GPU model; `right` names facts that no node has wrong (`settled`).
    """
    found = []
    for fact in (*FACTS, *package_facts(nodes.values())):
        read = {name: fact.value(node) for name, node in nodes.items() if fact.is_asked(node)}
        if len(read) > 1 and (None in read.values() or len(set(read.values())) > 1):
            found.append(_difference(fact, read, models, fact.name in right))
    return found


def _difference(
    fact: Fact, read: Mapping[str, str | None], models: Mapping[str, str], is_right: bool
) -> Difference:
    peers = _peers(fact.comparison, read, models)
    certain = not is_right and any(len({*group} - {None}) > 1 for group in peers)
    # A value that could not be read equals nothing, not even another one.
    unknown = any(len(group) > 1 and None in group for group in peers)
    values = {name: UNREADABLE if value is None else value for name, value in read.items()}
    return Difference.model_validate(
        {"fact": fact.name, "class": fact.comparison, "values": values}
        | {"drift": certain or unknown, "certain": certain}
    )


def _peers(
    comparison: Class, values: Mapping[str, str | None], models: Mapping[str, str]
) -> list[list[str | None]]:
    """Return the values in groups of nodes that must agree."""
    peers: dict[str, list[str | None]] = defaultdict(list)
    for name, value in values.items():
        alike = {"must-equal": "", "per-model": models.get(name, ""), "per-host": name}
        peers[alike[comparison]].append(value)
    return list(peers.values())
