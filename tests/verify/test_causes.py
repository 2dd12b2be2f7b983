"""The messages about a Python that cannot take part, and about a run that stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_node.verify import causes
from gpu_node.verify.nodes import RankOutput
from gpu_node.verify.outcome import Row
from gpu_node.verify.output import Look
from gpu_node.verify.ranks import STAGES, Rank
from tests.verify.test_hostile import start_of

LOOK = Look(
    python="/usr/bin/python3",
    names={"a100-01": "10.0.0.4", "v100-01": "10.0.0.5"},
    port=29500,
    root=True,
    deepspeed=True,
    torch="2.1.0",
    distributed=True,
    gpus=2,
    nccl="2.18.1",
)
START = start_of("a100-01", "v100-01")


def looks(**second: object) -> dict[str, Look]:
    """Two nodes, of which the second differs."""
    return {"a100-01": LOOK, "v100-01": LOOK.model_copy(update=second)}


def test_a_python_without_torch() -> None:
    """The message has the node, the Python, the error and the next step."""
    broken = LOOK.model_copy(update={"error": "ModuleNotFoundError: No module named 'torch'"})
    message = causes.wrong_python("v100-01", broken)
    assert message.startswith("v100-01: /usr/bin/python3 cannot import torch: ModuleNotFoundError")
    assert "launcher: {python: ...}" in message and "--python" in message
    apart = LOOK.model_copy(update={"distributed": False})
    assert "built without torch.distributed" in causes.wrong_python("v100-01", apart)
    assert causes.wrong_python("v100-01", LOOK) == ""


@pytest.mark.parametrize(
    ("gpus", "count", "message"),
    [(2, 2, ""), (0, None, ""), (0, 2, "sees no GPUs,"), (1, 2, "sees 1 GPU,")],
)
def test_gpus_that_torch_does_not_see(gpus: int, count: int | None, message: str) -> None:
    """If the inventory has a count, torch must see that many."""
    found = causes.wrong_gpus("v100-01", LOOK.model_copy(update={"gpus": gpus}), count)
    assert message in found and bool(message) == bool(found)


def test_names_that_resolve_to_the_node_itself() -> None:
    """The launching node logs in by name, and the others reach it by name."""
    assert list(causes.wrong_names("a100-01", looks())) == []
    there = {"a100-01": "127.0.1.1", "v100-01": "127.0.1.1"}
    (message,) = causes.wrong_names("a100-01", looks(names=there))
    assert message.startswith("v100-01: a100-01 resolves to 127.0.1.1 there, which is v100-01")
    (message,) = causes.wrong_names("a100-01", looks(names={"a100-01": None}))
    assert message.startswith("v100-01: the name a100-01 does not resolve there")
    alias = {"a100-01": LOOK.model_copy(update={"names": {"v100-01": None}}), "v100-01": LOOK}
    assert list(causes.wrong_names("a100-01", alias)) == []


def test_a_launcher_that_cannot_start() -> None:
    """DeepSpeed's launcher starts one path on all nodes, and needs the deepspeed package there."""
    assert list(causes.wrong_launcher("torchrun", looks(python="/q", deepspeed=False))) == []
    (message,) = causes.wrong_launcher("deepspeed", looks(python="/q"))
    assert "v100-01 /q" in message
    (message,) = causes.wrong_launcher("deepspeed", looks(deepspeed=False))
    assert message.startswith("v100-01: /usr/bin/python3 has no deepspeed")
    assert list(causes.wrong_launcher("mpirun", looks(deepspeed=False))) == []


def test_versions_that_differ() -> None:
    """The message has the version of each node; the fewer are named, or all of as many."""
    assert list(causes.different(looks())) == []
    torch, nccl = causes.different(looks(torch="1.13.1", nccl=None) | {"v100-02": LOOK})
    assert (torch.members, nccl.members) == (("v100-01",), ("v100-01",))
    assert torch.why == "torch differs: a100-01 2.1.0, v100-01 1.13.1, v100-02 2.1.0"
    assert nccl.why == "NCCL differs: a100-01 2.18.1, v100-01 none, v100-02 2.18.1"
    (torch,) = causes.different(looks(torch="1.13.1"))
    assert torch.members == ("a100-01", "v100-01")


@pytest.mark.parametrize(
    ("network", "address", "reported"),
    [
        ("bond0 10.0.0.4", "10.0.0.4", False),
        ("eno1 10.1.0.4, bond0 10.0.0.4", "10.0.0.4", False),
        ("eno1 10.1.0.4, eno2 10.2.0.4", "10.2.0.4", False),
        ("docker0 172.17.0.1", "10.0.0.4", True),
        ("bond0 10.0.0.44", "10.0.0.4", True),
        ("docker0 172.17.0.1", "a100-01.example.org", False),
        ("InfiniBand mlx5_0:1", "10.0.0.4", False),
        ("", "10.0.0.4", False),
    ],
)
def test_data_that_uses_another_address(network: str, address: str, reported: bool) -> None:
    """Data must use the inventory's address; InfiniBand has none."""
    messages = list(causes.beside([Row(node="a100-01", network=network)], {"a100-01": address}))
    assert bool(messages) == reported


def rank(number: int, stage: str, **more: object) -> Rank:
    """Return a rank that reached a stage."""
    reached = STAGES[: STAGES.index(stage) + 1]
    stages = {each: {"own_address": "10.0.0.5"} for each in reached}
    return Rank(
        number, START.placements[number].peer.name, stages | ({"failed": more} if more else {})
    )


@pytest.mark.parametrize(
    ("stage", "cause"),
    [
        ("started", "a slow disk"),
        ("imported", "did not reach a100-01 at port 29500"),
        ("connected", "could not form a group"),
        ("init", "a firewall"),
        ("small", "an MTU"),
        ("large", "a larger --timeout"),
    ],
)
def test_the_last_stage_of_a_rank(stage: str, cause: str) -> None:
    """The message has the rank, its last stage, and why the next is mostly not reached."""
    (message,) = causes.stopped(START, [rank(0, "done"), rank(1, stage)], {})
    assert message.startswith(f"rank 1 (v100-01) did not get past '{stage}' within 60 s: ")
    assert cause in message


def test_a_run_without_problems() -> None:
    """Both ranks computed the right sums."""
    assert list(causes.stopped(START, [rank(0, "done"), rank(1, "done")], {})) == []


def test_a_launcher_that_fails_in_the_end() -> None:
    """A job of the user would be reported as failed, too."""
    outputs = {"a100-01": RankOutput(exits={0: 0, 1: 1}, logs={1: ("OSError: no space",)})}
    (message,) = causes.stopped(START, [rank(0, "done"), rank(1, "done")], outputs)
    end = "torchrun ended with exit status 1: OSError: no space"
    assert message == f"every rank was done, but {end}"


def test_a_failed_rank_is_reported_first() -> None:
    """The ranks that waited for it follow."""
    first, second = causes.stopped(
        START, [rank(0, "connected"), rank(1, "small", error="ValueError: 3 of 4 sums")], {}
    )
    assert first == "v100-01: rank 1 failed after 'small': ValueError: 3 of 4 sums"
    assert second == "rank 0 (a100-01) reached 'connected' and waited for the other ranks"


def test_the_slowest_rank_delays_the_others() -> None:
    """Only its stage has a cause."""
    first, second = causes.stopped(START, [rank(0, "imported"), rank(1, "started")], {})
    assert first.startswith("rank 1 (v100-01) did not get past 'started' within 60 s: torch was")
    assert second == "rank 0 (a100-01) reached 'imported' and waited for the other ranks"


def test_a_launcher_that_waited_is_not_the_cause() -> None:
    """The one that failed is the cause; the script then ends the others."""
    outputs = {"a100-01": RankOutput(exits={1: 255}, logs={1: ("Connection refused",)})}
    (message,) = causes.stopped(START, [], outputs)
    assert message.startswith("v100-01: no rank started: a100-01 could not log in to v100-01")


def test_pdsh_names_the_node() -> None:
    """Its own line about the login follows the output of ssh."""
    log = (
        "v100-01: root@v100-01: Permission denied",
        "pdsh@a100-01: v100-01: ssh exited with 255",
    )
    outputs = {"a100-01": RankOutput(exits={0: 1}, logs={0: log})}
    start = replace(START, kind="deepspeed")
    first, second = causes.stopped(start, [rank(0, "imported")], outputs)
    assert first.endswith(
        "deepspeed ended with exit status 1: v100-01: root@v100-01: Permission denied"
    )
    assert second == "rank 0 (a100-01) reached 'imported' and waited for the other ranks"


def test_gloo_sends_a_loopback_address() -> None:
    """Debian's installer gives a machine's own name the address 127.0.1.1."""
    own = Rank(1, "v100-01", {"started": {"own_address": "127.0.1.1"}, "connected": {}})
    *_, message = causes.stopped(START, [rank(0, "init"), own], {})
    assert message.startswith("v100-01: its own name resolves to 127.0.1.1 there")


@pytest.mark.parametrize(
    ("kind", "output", "message"),
    [
        (
            "torchrun",
            RankOutput(exits={1: 255}, logs={1: ("root@v100-01: Permission denied (publickey).",)}),
            "a100-01 could not log in to v100-01, or lost the connection: root@v100-01: Permission",
        ),
        ("torchrun", RankOutput(), "torchrun did not end within 60 s, without output"),
        (
            "deepspeed",
            RankOutput(
                exits={0: 1}, logs={0: ("Traceback (most", "RuntimeError: no pdsh", "  at x")}
            ),
            "deepspeed ended with exit status 1: RuntimeError: no pdsh",
        ),
    ],
)
def test_a_node_without_a_rank(kind: str, output: RankOutput, message: str) -> None:
    """The launcher's output is the reason."""
    start = replace(START, kind=kind)
    outputs = {"v100-01": RankOutput(), "a100-01": output}
    (found,) = causes.stopped(start, [rank(0, "done")], outputs)
    assert found.startswith(f"v100-01: no rank started: {message}")


def test_the_output_of_a_failed_run_names_its_cause() -> None:
    """As its log would."""
    line = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    outputs = {"a100-01": RankOutput(logs={0: ("loading", line)}), "v100-01": RankOutput()}
    (note,) = causes.known(outputs)
    assert "gpu-node explain cause.no-kernel-image" in note
    assert list(causes.known({"a100-01": RankOutput(logs={0: ("loading", "done")})})) == []
