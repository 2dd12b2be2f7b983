"""A part of a run: areas and nodes that are named, and everything where nothing is."""

from __future__ import annotations

from typing import Any

from gpu_node.deploy.engine.scope import Part, part_of
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.registry import RULES
from gpu_node.facts.areas import AREAS


class Host:
    """What `part_of` asks of a host."""

    def __init__(self, **data: object) -> None:
        self.data = data


def finding(rule: str) -> Finding:
    words: dict[str, Any] = dict.fromkeys(("subject", "found", "wanted", "cause", "fix"), "x")
    return Finding(rule=rule, severity="error", fixable=True, step=rule.split(".")[0], **words)


FOUND = (finding("shm.too-small"), finding("ssh.no-login"), finding("nccl.unreadable"))


def test_all_without_a_selection() -> None:
    assert part_of(Host()).of("a", FOUND) == FOUND  # type: ignore[arg-type]


def test_areas_are_a_list_or_have_commas() -> None:
    for areas in ("ssh, nccl", ["ssh", "nccl"]):
        part = part_of(Host(areas=areas))  # type: ignore[arg-type]
        assert part.of("a", FOUND) == FOUND[1:]
        assert part.has("ssh") and not part.has("shm")


def test_a_node_that_is_only_asked_has_nothing_to_repair() -> None:
    part = Part(nodes=("b",))
    assert (part.of("a", FOUND), part.of("b", FOUND)) == ((), FOUND)


def test_the_areas_of_a_run_are_those_of_the_rules() -> None:
    assert set(AREAS) == {rule.area for rule in RULES.values()}
