"""How a verification is written out."""

from __future__ import annotations

import json

import pytest

from gpu_node.cli.console import show
from gpu_node.verify.isolate import Named, Tried
from gpu_node.verify.outcome import Outcome, Row
from gpu_node.verify.table import as_json, render

ROW = Row(
    node="a100-01",
    ranks="0-1",
    stage="done",
    device="NVIDIA A100",
    network="bond0 10.0.0.4",
    torch="2.1.0",
    nofile=16384,
    shm=8 << 30,
)


def test_nodes_are_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """What no node has is left out; what one of them lacks is a dash; the verdict comes last."""
    other = Row(node="v100-01", stage="no rank started")
    problem = "v100-01: no rank started: \x1b[31m"
    show(render(Outcome(False, (ROW, other), "torchrun, 4 ranks", problems=(problem,))))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["a100-01", "v100-01"]
    assert "data went by  bond0 10.0.0.4  -" in lines
    assert not any(line.startswith("NCCL") for line in lines)
    assert r"error  v100-01: no rank started: \x1b[31m" in lines
    assert lines[-2:] == ["torchrun, 4 ranks", "not verified"]


def test_the_bandwidth_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """In units of 10^9 bytes, as nccl-tests tell it; the size in powers of 1024."""
    how = "torchrun, 2 ranks on 2 nodes, nccl"
    show(render(Outcome(True, (ROW,), how, 64 << 20, 11.234e9, notes=("a note",))))
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "note  a note",
        f"{how}: 11.23 GB/s bus bandwidth with 64M",
        "verified: every rank computed the right sums",
    ]


def test_more_nodes_than_fit_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """They come in several tables, none of them left out."""
    names = [f"n-{number}" for number in range(9)]
    show(render(Outcome(True, tuple(Row(node=name, stage="done") for name in names))))
    output = capsys.readouterr().out
    assert [word for word in output.split() if word in names] == names


def test_what_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The slowest pairs first, each as its last try was, and the set that works as a hostfile."""
    tries = [
        Tried(("a", "b"), bandwidth=2e8, link=1.25e9),
        Tried(("a", "c"), "fails"),
        Tried(("b", "c"), bandwidth=1e8),
        Tried(("a", "b"), bandwidth=3e8, link=1.25e9),
    ]
    outcome = Outcome(False, named=(Named(("c",), "x"),), working={"a": 8}, tries=tuple(tries))
    show(render(outcome))
    assert capsys.readouterr().out.splitlines()[:4] == [
        "b and c: 0.1 GB/s of an unknown speed",
        "a and b: 0.3 GB/s of 1.25 GB/s",
        "the largest set that works, as a hostfile:",
        "a slots=8",
    ]
    assert json.loads(as_json(outcome))["named"] == [{"members": ["c"], "why": "x"}]
