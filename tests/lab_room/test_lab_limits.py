"""The ulimits of a node fit the machine it runs on."""

import pytest

from gpu_node.lab.limits import UNLIMITED, choose, may_raise

KIND = {"nofile": 1048576, "memlock": UNLIMITED, "nproc": 96365}
POOR = {"nofile": 4096, "memlock": 32768, "nproc": 500}


def test_a_kind_machine_gives_what_was_found_in_the_field() -> None:
    assert choose(KIND, may_raise=False) == [
        "nofile=1024:20000",
        "memlock=65536:8388608",
        "nproc=8192:8192",
    ]


def test_a_poor_machine_is_not_asked_for_more_than_it_has() -> None:
    assert choose(POOR, may_raise=False) == [
        "nofile=1024:4096",
        "memlock=32768:32768",
        "nproc=500:500",
    ]


def test_who_may_raise_limits_does() -> None:
    assert choose(POOR, may_raise=True) == choose(KIND, may_raise=False)


@pytest.mark.parametrize(
    ("status", "may"),
    [
        ("CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n", True),
        ("CapBnd:\t000001fffeffffff\n", False),
        ("", False),
    ],
)
def test_the_capability_is_read_from_the_bounding_set(status: str, may: bool) -> None:
    assert may_raise(status) is may
