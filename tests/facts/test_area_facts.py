"""The pyinfra fact of each area: in a real shell it has the values that the node's probe has."""

from __future__ import annotations

from typing import Any

import pytest
from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError
from typing_extensions import override

from gpu_node.facts.driver.state import Driver
from gpu_node.facts.node import AREA_FACTS, SECTIONS, NodeProbe, NodeState
from gpu_node.facts.probe.base import AreaFact, ProbeFact, State
from gpu_node.facts.probe.protocol import Readings
from gpu_node.facts.probe.request import ProbeRequest
from tests.shells import as_lines, at_an_empty_home, run

# Other programs run, and use /dev/shm, memory and disks, meanwhile; a clock goes on.
CHANGING = {"usage", "use", "processes", "begin", "end", "swap", "memory", "disks", "boots"}
TRIES = 5


def _values(fact: FactBase[dict[str, Any]], cut: int | None = None) -> dict[str, Any]:
    output = as_lines(run("dash", str(fact.command()), env=at_an_empty_home()).stdout)[:cut]
    values: dict[str, Any] = fact.process(output)
    return values


def test_each_area_has_a_fact() -> None:
    """An area that is probed can also be asked alone."""
    assert set(AREA_FACTS) == set(NodeState.model_fields) - {"unreadable"}
    asked = [section.name for fact in AREA_FACTS.values() for section in fact.sections]
    assert asked == [section.name for section in SECTIONS]


def test_the_facts_equal_the_probe() -> None:
    """The same keys and the same values; nothing is unreadable on this machine."""
    left, whole = set(AREA_FACTS), _values(NodeProbe())
    # Another program may add or remove an interface, for example, between the two.
    for _ in range(TRIES):
        before, alone = whole, {area: _values(AREA_FACTS[area]()) for area in left}
        whole = _values(NodeProbe())
        assert whole["unreadable"] == []
        for area, values in alone.items():
            assert values.pop("unreadable") == {}
            assert values.keys() == whole[area].keys()
        still = {area for area in left if _lasting(before[area]) == _lasting(whole[area])}
        for area in still:
            assert _lasting(alone[area]) == _lasting(whole[area])
        left -= still
        if not left:
            return
    pytest.fail(f"these facts change in every try: {sorted(left)}")


def _lasting(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in CHANGING}


@pytest.mark.parametrize("area", AREA_FACTS)
def test_a_fact_of_half_an_answer_says_what_is_unreadable(area: str) -> None:
    """Each section that did not come is None, and named with its reason."""
    values = _values(AREA_FACTS[area](), cut=3)
    asked = {section.name for section in AREA_FACTS[area]().sections_for(ProbeRequest())}
    assert set(values["unreadable"]) == asked
    assert not any(value for key, value in values.items() if key != "unreadable")


class Broken(AreaFact):
    """An area whose parser has a defect."""

    @staticmethod
    @override
    def parse(readings: Readings) -> State:
        raise RuntimeError("a defect")


@pytest.mark.parametrize("fact", [Broken, ProbeFact, AreaFact])
def test_only_one_error_leaves_a_fact(fact: type[ProbeFact]) -> None:
    """Any other would end the run for every node."""
    with pytest.raises(FactProcessError):
        fact().process([""])


def test_a_part_of_the_driver_alone() -> None:
    """What was not asked is None, and is not called unreadable."""
    fact = Driver()
    script = fact.command(only="kernels,loaded")
    values = fact.process(as_lines(run("dash", script).stdout))
    assert values.pop("unreadable") == {}
    assert {key for key, value in values.items() if value is not None} == {"kernels", "loaded"}
    assert "nvidia-smi -q" not in script
