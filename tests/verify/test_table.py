"""How a verification is written out."""

from __future__ import annotations

import pytest

from gpu_node.cli.console import show
from gpu_node.verify.outcome import Outcome, Row
from gpu_node.verify.table import render

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
