"""Rows, ways of the data and bandwidth, from what ranks tell."""

from __future__ import annotations

from typing import Any

import pytest

from verify.ranks import Rank, bandwidth, network, ranks_of, rows

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
    """What a rank tells that reached these stages."""
    given: dict[str, dict[str, Any]] = {
        "started": STARTED,
        "imported": {"torch": "2.1.0", "device": "cpu"},
        "small": SMALL,
    }
    return [{"rank": number, "stage": stage, **given.get(stage, {}), **more} for stage in stages]


def logged(*said: str) -> Rank:
    return Rank(0, "a100-01", {"small": {**SMALL, "nccl_log": list(said)}})


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
            ["InfiniBand mlx5_0:1, mlx5_1:1 (meeting by bond0 10.0.0.4)"],
        ),
        ("NCCL INFO Bootstrap : Using bond0:10.0.0.4<0>", ["bond0 10.0.0.4"]),
        ("NCCL INFO Bootstrap: Using bond0:10.0.0.4<0>", ["bond0 10.0.0.4"]),
        ("NCCL INFO NET/IB : No device found.", ["bond0 10.0.0.4"]),
    ],
)
def test_the_way_that_nccl_tells(line: str, way: list[str]) -> None:
    """Its transport is believed; without one the connections are."""
    assert network(logged("NCCL INFO Using internal Network", line), 29500) == way


def test_the_way_of_the_connections() -> None:
    """What ranks meet at is none of it, unless there is nothing else."""
    other = {**SMALL, "connections": [*SMALL["connections"], ["192.0.2.1", 5, "192.0.2.2", 6]]}
    assert network(Rank(0, "a", {"small": other}), 29500) == ["bond0 10.0.0.4", "192.0.2.1"]
    alone = {**SMALL, "connections": SMALL["connections"][:1]}
    assert network(Rank(0, "a", {"small": alone}), 29500) == ["bond0 10.0.0.4"]


def test_a_row_a_node() -> None:
    """Of a node's ranks the slowest tells how far it came; a node without ranks says so."""
    told = {
        "a100-01": [*lines(0, "started", "imported", "small", "done"), *lines(1, "started")],
        "v100-01": [],
    }
    first, second = rows(["a100-01", "v100-01"], ranks_of(told), 29500)
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
