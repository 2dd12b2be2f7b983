"""Rows, networks and bandwidth, computed from the output of ranks."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpu_node.verify.nodes import RankOutput
from gpu_node.verify.ranks import Rank, bandwidth, network, ranks_of, rows

STARTED: dict[str, Any] = {
    "ifname": "bond0",
    "ifname_from": "nccl.conf",
    "nofile": 16384,
    "shm": 8 << 30,
}
SMALL: dict[str, Any] = {
    "interfaces": {"lo": "127.0.0.1", "bond0": "10.0.0.4"},
    "connections": [
        ["10.0.0.4", 29500, "10.0.0.5", 40000],
        ["10.0.0.4", 33333, "10.0.0.5", 40001],
    ],
    "nccl_log": [],
}


def lines(number: int, *stages: str, **more: Any) -> list[dict[str, Any]]:
    """Return the output of a rank that reached these stages."""
    given: dict[str, dict[str, Any]] = {
        "started": STARTED,
        "imported": {"torch": "2.1.0", "device": "cpu"},
        "small": SMALL,
    }
    return [{"rank": number, "stage": stage, **given.get(stage, {}), **more} for stage in stages]


def logged(*log: str) -> Rank:
    return Rank(0, "a100-01", {"small": {**SMALL, "nccl_log": list(log)}})


@pytest.mark.parametrize(
    ("line", "way"),
    [
        ("a:1:2 [0] NCCL INFO NET/Socket : Using [0]bond0:10.0.0.4<0>", ["bond0 10.0.0.4"]),
        (
            "NCCL INFO NET/Socket : Using [0]eno1:10.0.0.4<0> [1]eno2:10.1.0.4<0>",
            ["eno1 10.0.0.4", "eno2 10.1.0.4"],
        ),
        (
            "NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB [RO]; OOB bond0:10.0.0.4<0>",
            ["InfiniBand mlx5_0:1, mlx5_1:1 (bootstrap by bond0 10.0.0.4)"],
        ),
        ("NCCL INFO Bootstrap : Using bond0:10.0.0.4<0>", ["bond0 10.0.0.4"]),
        ("NCCL INFO Bootstrap: Using bond0:10.0.0.4<0>", ["bond0 10.0.0.4"]),
        ("NCCL INFO NET/IB : No device found.", ["bond0 10.0.0.4"]),
    ],
)
def test_the_network_in_nccls_log(line: str, way: list[str]) -> None:
    """Its transport counts; without one the connections count."""
    assert network(logged("NCCL INFO Using internal Network", line), 29500) == way


def test_the_network_of_the_connections() -> None:
    """The port at which ranks meet does not count, unless there is no other connection."""
    other = {**SMALL, "connections": [*SMALL["connections"], ["192.0.2.1", 5, "192.0.2.2", 6]]}
    assert network(Rank(0, "a", {"small": other}), 29500) == ["bond0 10.0.0.4", "192.0.2.1"]
    alone = {**SMALL, "connections": SMALL["connections"][:1]}
    assert network(Rank(0, "a", {"small": alone}), 29500) == ["bond0 10.0.0.4"]


def test_a_row_a_node() -> None:
    """The stage is that of the node's slowest rank; a node without ranks has its own text."""
    output = {
        "a100-01": RankOutput(
            ranks=(*lines(0, "started", "imported", "small", "done"), *lines(1, "started"))
        ),
        "v100-01": RankOutput(),
    }
    first, second = rows(["a100-01", "v100-01"], ranks_of(output), 29500)
    assert (first.ranks, first.stage, first.device) == ("0-1", "started", "cpu")
    assert (first.network, first.ifname) == ("bond0 10.0.0.4", "bond0 (nccl.conf)")
    assert (first.nofile, first.shm, first.torch) == (16384, 8 << 30, "2.1.0")
    assert (second.stage, second.ranks) == ("no rank started", "")


def test_the_bandwidth_is_the_slowest_ranks() -> None:
    """Bytes by seconds, times 2 (n - 1) / n; one rank sends nothing."""
    done = [
        Rank(number, "a", {"done": {"seconds": seconds, "bytes": 1000, "ranks": 4}})
        for number, seconds in enumerate((1.0, 2.0, 1.5, 1.0))
    ]
    assert bandwidth(done) == 1000 / 2.0 * 1.5
    assert bandwidth([]) is None
    assert bandwidth([Rank(0, "a", {"done": {"seconds": 1, "bytes": 1, "ranks": 1}})]) is None


@pytest.mark.parametrize("word", ["NET/IB : Using ", "NET/Socket : Using ", "Bootstrap : Using"])
@pytest.mark.parametrize("end", ["", "\n\n", "\nx"])
def test_a_long_line_of_nccls(word: str, end: str) -> None:
    """It is read in linear time, whatever is repeated in it."""
    log = [f"{word * 20_000}{end}"] * 20
    began = time.process_time()
    network(Rank(0, "a", {"small": {**SMALL, "nccl_log": log}}), 29500)
    assert time.process_time() - began < 1
