"""The pyinfra fact of each area: in a real shell it has the values that the node's probe has."""

from __future__ import annotations

from typing import Any

import pytest
from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError
from typing_extensions import override

from facts.area import AreaFact, ProbeFact, State
from facts.driver import Driver
from facts.env import Env
from facts.limits import ResourceLimits
from facts.nccl import Nccl
from facts.network import Network
from facts.node import SECTIONS, NodeProbe, NodeState
from facts.probe import Readings
from facts.shm import SharedMemory
from facts.ssh import SshMesh
from facts.toolchain import Toolchain
from facts.workspace import Workspace
from tests.shells import as_lines, at_an_empty_home, run

FACTS: dict[str, type[AreaFact]] = {
    "driver": Driver,
    "shm": SharedMemory,
    "limits": ResourceLimits,
    "toolchain": Toolchain,
    "nccl": Nccl,
    "ssh": SshMesh,
    "network": Network,
    "env": Env,
    "workspace": Workspace,
}


# Other programs run, and use /dev/shm, meanwhile.
CHANGING = {"usage", "use", "processes"}
TRIES = 5


def _values(fact: FactBase[dict[str, Any]], cut: int | None = None) -> dict[str, Any]:
    output = as_lines(run("dash", str(fact.command()), env=at_an_empty_home()).stdout)[:cut]
    values: dict[str, Any] = fact.process(output)
    return values


def test_each_area_has_a_fact() -> None:
    """An area that is probed can also be asked alone."""
    assert set(FACTS) == set(NodeState.model_fields) - {"unreadable"}
    asked = [section.name for fact in FACTS.values() for section in fact.sections]
    assert asked == [section.name for section in SECTIONS]


def test_the_facts_equal_the_probe() -> None:
    """The same keys and the same values; nothing is unreadable on this machine."""
    left, whole = set(FACTS), _values(NodeProbe())
    # Another program may add or remove an interface, for example, between the two.
    for _ in range(TRIES):
        before, alone = whole, {area: _values(FACTS[area]()) for area in left}
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


@pytest.mark.parametrize("area", FACTS)
def test_a_fact_of_half_an_answer_says_what_is_unreadable(area: str) -> None:
    """Each section that did not come is None, and named with its reason."""
    values = _values(FACTS[area](), cut=3)
    assert set(values["unreadable"]) == {section.name for section in FACTS[area].sections}
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
    told = fact.process(as_lines(run("dash", script).stdout))
    assert told.pop("unreadable") == {}
    assert {key for key, value in told.items() if value is not None} == {"kernels", "loaded"}
    assert "nvidia-smi --query-gpu" not in script
