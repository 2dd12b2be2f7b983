"""Reports for the tests of what is kept: changes of the healthy node, an hour after the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from gpu_node.drift.report.model import Report
from gpu_node.drift.report.model import report_of as report_now
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.probe.peers import Peer
from gpu_node.history.compare import snapshot
from gpu_node.history.store import opened
from tests.drift import reports, states

INVENTORY = "/srv/site.py"
FIRST, HOUR = 1_795_000_000, 3600
Nodes = Mapping[str, Any]
# The inventory has these, whichever of them a report is about.
PEERS = tuple(Peer(name=name, address=name) for name in ("a", "b", "c"))


def seen_of(nodes: Nodes) -> dict[str, Seen]:
    """Return what came back: a node is `unreachable`, or has `found` and `inventory`."""
    return {name: _seen(name, node) for name, node in nodes.items()}


def _seen(name: str, node: Any) -> Seen:
    if node == "unreachable":
        return reports.GONE
    found = states.seen(states.named(node.get("found"), name), **node.get("inventory", {}))
    return replace(found, nodes=PEERS)


def report_of(seen: Mapping[str, Seen], number: int = 0) -> Report:
    """Return the report about nodes, made so many hours after the first."""
    at = datetime.fromtimestamp(FIRST + number * HOUR, timezone.utc)
    return report_now(INVENTORY, seen).model_copy(update={"generated": at.isoformat()})


def keep(nodes: Nodes, number: int = 0, asked: Collection[str] = ()) -> None:
    """Keep the report about nodes."""
    seen = seen_of(nodes)
    now = snapshot(report_of(seen, number), frozenset(asked))
    with opened(making=True) as store:
        store.keep(INVENTORY, FIRST + number * HOUR, now)
