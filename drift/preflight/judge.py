"""All rows of the pre-flight, in the order of the table: the machine, its cards, the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_node.drift.preflight import hardware, identity, machine, packages, paths
from gpu_node.drift.preflight.row import Newcomer, Row, unknown
from gpu_node.facts.preflight.reachability import MemberState
from gpu_node.facts.preflight.state import NewcomerState
from gpu_node.facts.probe.bounds import in_words
from gpu_node.facts.probe.guard import beside
from gpu_node.inventories.schema import NodeWanted


def judged(
    found: NewcomerState,
    members: Mapping[str, MemberState | str],
    newcomer: Newcomer,
    wanted: NodeWanted | None = None,
) -> list[Row]:
    """Return the verdicts about a server that is to become a node.

    `members` are the nodes of the cluster, each its state or the reason why there is none; the
    server itself is none of them. `wanted` is what the inventory would want of it, if that is
    known. A node whose answer cannot be judged is one without an answer.
    """
    answered = {name: each for name, each in members.items() if not isinstance(each, str)}
    silent = {name: each for name, each in members.items() if isinstance(each, str)}

    def beside_them(some: dict[str, MemberState], unread: Mapping[str, str]) -> list[Row]:
        known: dict[str, MemberState | str] = {**some, **silent, **unread}
        around = {name: known[name] for name in members if name in known}
        return _judged(found, around, newcomer, wanted)

    _, blamed = beside(lambda some: beside_them(some, {}), answered)
    unread = {name: f"its answer is not understood: {reason}" for name, reason in blamed.items()}
    left = {name: each for name, each in answered.items() if name not in blamed}
    try:
        return beside_them(left, unread)
    except Exception as error:  # of whatever class: an answer of the server's made it
        return [unknown("answer", {"preflight": in_words(error)}, "preflight", "stop")]


def _judged(
    found: NewcomerState,
    members: Mapping[str, MemberState | str],
    newcomer: Newcomer,
    wanted: NodeWanted | None,
) -> list[Row]:
    return [
        *machine.judged(found, newcomer),
        *packages.judged(found, wanted),
        *hardware.judged(found, newcomer, wanted),
        *identity.judged(found, members, newcomer),
        *paths.judged(found, members, newcomer, wanted),
    ]
