"""The first lines of a report: GPUs, driver, PyTorch and NCCL of each kind of node."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from tests.drift import states
from tests.drift.reports import GONE, concise, report

EMPTY: dict[str, Any] = {
    "driver": {
        "smi": {"code": None, "gpus": []},
        "devices": [],
        "library": "",
        "loaded": {"nvidia": ""},
    }
}
TRAINS: dict[str, Any] = {"nccl": {"environments": {"/opt/dis": {}}}}


def lines(nodes: dict[str, Seen], **elsewhere: str) -> list[str]:
    return [each.words for each in View(report(nodes), elsewhere=elsewhere).kinds]


def test_what_a_report_did_not_find_is_its_first_line() -> None:
    """Nodes with neither GPU nor PyTorch are no success of a tool for both."""
    nodes = {name: states.seen(EMPTY) for name in ("a-1", "a-2")}
    assert lines(nodes) == ["all: no GPU, no PyTorch found"]
    assert concise(nodes, 80).splitlines()[0] == "all: no GPU, no PyTorch found"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "2 x A100-PCIE-40GB, driver 535.154.05, no PyTorch found"),
        (TRAINS, "2 x A100-PCIE-40GB, driver 535.154.05, PyTorch 2.1.2+cu121, NCCL 2.18.1"),
        (
            {"driver": {"smi": {"code": 9, "gpus": []}}},
            "2 GPUs of which none answers, driver 535.154.05, no PyTorch found",
        ),
        ({"driver": {"smi": None}}, "GPUs unreadable, driver 535.154.05, no PyTorch found"),
    ],
)
def test_what_was_found(change: dict[str, Any], words: str) -> None:
    assert lines({"n": states.seen(change)}) == [f"n: {words}"]


@pytest.mark.parametrize(
    ("environments", "absent", "words"),
    [
        pytest.param(
            {"/opt/dis": None},
            ["/opt/dis"],
            "environment /opt/dis does not exist",
            id="the only one",
        ),
        pytest.param(
            {"/opt/dis": {}, "/opt/new": None},
            ["/opt/new"],
            "environment /opt/new does not exist, PyTorch 2.1.2+cu121, NCCL 2.18.1",
            id="one of two",
        ),
        pytest.param(
            {"/opt/a": None, "/opt/b": None, "/opt/c": None},
            ["/opt/a", "/opt/b"],
            "environments /opt/a and /opt/b do not exist, PyTorch unreadable",
            id="and one that cannot be read",
        ),
    ],
)
def test_an_environment_that_does_not_exist(
    environments: dict[str, Any], absent: list[str], words: str
) -> None:
    """It was read: there is none."""
    node = states.seen({"nccl": {"environments": environments, "absent": absent}})
    assert lines({"n": node}) == [f"n: 2 x A100-PCIE-40GB, driver 535.154.05, {words}"]


def test_an_environment_whose_python_is_old() -> None:
    """It is not read: that is its Python's fault, and no unreadable answer."""
    old = {"environments": {"/opt/old": None, "/opt/dis": {}}, "old_pythons": {"/opt/old": "2.7"}}
    (line,) = lines({"n": states.seen({"nccl": old})})
    assert line.endswith(
        ", environment /opt/old not read (Python 2.7), PyTorch 2.1.2+cu121, NCCL 2.18.1"
    )


def test_alike_nodes_are_one_line() -> None:
    """The most frequent kind first; a node without an answer has none; many kinds are named."""
    nodes = {"b": states.seen(EMPTY), "gone": GONE} | {f"a-{n}": states.seen() for n in range(3)}
    found = lines(nodes)
    assert [line.partition(":")[0] for line in found] == ["a-[0-2]", "b"]
    kinds = {
        f"n{number}": states.seen({"driver": {"loaded": {"nvidia": f"535.{number}"}}})
        for number in range(9)
    }
    assert len(lines(kinds)) == 5
    assert lines(kinds)[-1] == "n[4-8]: others, see --facts"


def test_what_init_has_found_beside_the_report() -> None:
    """A PyTorch that the probe did not ask is not missing."""
    found = lines({"n": states.seen(EMPTY)}, n="/opt/venv")
    assert found == ["n: no GPU, PyTorch in /opt/venv (not read)"]
