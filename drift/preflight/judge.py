"""All rows of the pre-flight, in the order of the table: the machine, its cards, the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from drift.preflight import hardware, identity, machine, packages, paths
from drift.preflight.row import Newcomer, Row
from facts.preflight import NewcomerState
from facts.reach import MemberState
from inventories.schema import NodeWanted


def judged(
    found: NewcomerState,
    members: Mapping[str, MemberState | str],
    newcomer: Newcomer,
    wanted: NodeWanted | None = None,
) -> list[Row]:
    """Return the verdicts about a server that is to become a node.

    `members` are the nodes of the cluster, each its state or the reason why there is none; the
    server itself is none of them. `wanted` is what the inventory would want of it, if that is
    known.
    """
    return [
        *machine.judged(found, newcomer),
        *packages.judged(found, wanted),
        *hardware.judged(found, newcomer, wanted),
        *identity.judged(found, members, newcomer),
        *paths.judged(found, members, newcomer, wanted),
    ]
