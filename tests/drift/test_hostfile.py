"""The hostfile: the inventory's slots, checked against the GPUs that were found."""

from __future__ import annotations

import pytest

from gpu_node.drift.healthy import healthy
from gpu_node.drift.hostfile import NoHostfile, hostfile
from gpu_node.drift.report.seen import Seen
from tests.drift import states
from tests.drift.reports import report

FELL_OFF = {
    "driver": {
        "smi": {"gpus": []},
        "devices": [{"id": "0x20f1", "driver": "nvidia"}],
    }
}
DEVICE = FELL_OFF["driver"]["devices"][0]  # type: ignore[index]
MANY = {"driver": {"smi": {"gpus": []}, "devices": [DEVICE] * 5000}}
DOWN = {"driver": {"smi": {"gpus": [], "code": 9, "output": "NVIDIA-SMI has failed"}}}


def test_a_line_a_node() -> None:
    """In the inventory's order; the driver may be down, the PCI bus has them all the same."""
    seen = {"v100-01": states.seen(DOWN), "a100-01": states.seen()}
    assert hostfile(seen) == "v100-01 slots=2\na100-01 slots=2\n"


def test_without_a_count_in_the_inventory() -> None:
    """What is there is what is used."""
    assert hostfile({"h": states.seen(gpu_model=None, gpu_count=None)}) == "h slots=2\n"


def test_a_node_that_only_launches_has_no_line() -> None:
    """Whatever it answers; `--healthy` neither prints it nor leaves it out."""
    seen = {"login": states.seen(gpu_model="none"), "a100-01": states.seen()}
    silent = {**seen, "login": Seen(states.wanted({"gpu_model": "none"}), error="no route")}
    assert hostfile(seen) == hostfile(silent) == "a100-01 slots=2\n"
    found = healthy(report(silent).hosts, silent)
    assert (found.nodes, found.left_out) == (("a100-01",), {})


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (states.seen(FELL_OFF), "h: found 1 GPU; allowed: 2, the inventory's gpu.count"),
        (states.seen(gpu_count=8), "h: found 2 GPUs; allowed: 8, the inventory's gpu.count"),
        (states.seen({"driver": {"smi": None, "devices": None}}), "could not be counted"),
        (
            states.seen(
                {"driver": {"smi": {"gpus": []}, "devices": []}}, gpu_model=None, gpu_count=None
            ),
            "h: found no GPU",
        ),
        (Seen(states.wanted(), error="Could not connect"), "h: found no answer: Could not connect"),
        (states.seen(MANY, gpu_model=None, gpu_count=None), "could not be counted"),
    ],
    ids=["one fell off", "another count", "unknown", "none", "unreachable", "many"],
)
def test_no_half_hostfile(node: Seen, says: str) -> None:
    """One node that is not right keeps back the others' lines as well."""
    with pytest.raises(NoHostfile) as error:
        hostfile({"well": states.seen(), "h": node})
    (reason,) = str(error.value).splitlines()
    assert says in reason
