"""What is said of a Python that will not do, and of a run that stopped at each stage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facts.cluster import Peer
from verify import causes
from verify.nodes import Look, Told
from verify.outcome import Row
from verify.plan import Seat, Start
from verify.ranks import STAGES, Rank

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
START = Start(
    run="r",
    kind="torchrun",
    seats=(
        Seat(Peer(name="a100-01", address="10.0.0.4"), "/p", "2.1.0", 1),
        Seat(Peer(name="v100-01", address="10.0.0.5"), "/p", "2.1.0", 1),
    ),
    port=29500,
    backend="gloo",
    size=1024,
    seconds=60,
)


def looks(**second: object) -> dict[str, Look]:
    """Two nodes, of which the second differs."""
    return {"a100-01": LOOK, "v100-01": LOOK.model_copy(update=second)}


def test_a_python_without_torch() -> None:
    """The node, the Python, the error and the way on."""
    broken = LOOK.model_copy(update={"error": "ModuleNotFoundError: No module named 'torch'"})
    said = causes.wrong_python("v100-01", broken)
    assert said.startswith("v100-01: /usr/bin/python3 cannot import torch: ModuleNotFoundError")
    assert "launcher: {python: ...}" in said and "--python" in said
    apart = LOOK.model_copy(update={"distributed": False})
    assert "built without torch.distributed" in causes.wrong_python("v100-01", apart)
    assert causes.wrong_python("v100-01", LOOK) == ""


@pytest.mark.parametrize(
    ("gpus", "count", "said"),
    [(2, 2, ""), (0, None, ""), (0, 2, "sees no GPUs,"), (1, 2, "sees 1 GPU,")],
)
def test_gpus_that_torch_does_not_see(gpus: int, count: int | None, said: str) -> None:
    """The inventory's count is what there must be, where it says one."""
    found = causes.wrong_gpus("v100-01", LOOK.model_copy(update={"gpus": gpus}), count)
    assert said in found and bool(said) == bool(found)


def test_names_that_lead_to_the_node_itself() -> None:
    """What the launching node logs in to, and where the others find it; its own name is gloo's."""
    assert list(causes.wrong_names("a100-01", looks())) == []
    there = {"a100-01": "127.0.1.1", "v100-01": "127.0.1.1"}
    (said,) = causes.wrong_names("a100-01", looks(names=there))
    assert said.startswith("v100-01: a100-01 is 127.0.1.1 there, which is v100-01 itself")
    (said,) = causes.wrong_names("a100-01", looks(names={"a100-01": None}))
    assert said.startswith("v100-01: nobody knows the name a100-01 there")
    alias = {"a100-01": LOOK.model_copy(update={"names": {"v100-01": None}}), "v100-01": LOOK}
    assert list(causes.wrong_names("a100-01", alias)) == []


def test_a_launcher_that_could_start_nothing() -> None:
    """DeepSpeed's starts one path everywhere, and is a package of it."""
    assert list(causes.wrong_launcher("torchrun", looks(python="/q", deepspeed=False))) == []
    (said,) = causes.wrong_launcher("deepspeed", looks(python="/q"))
    assert "v100-01 /q" in said
    (said,) = causes.wrong_launcher("deepspeed", looks(deepspeed=False))
    assert said.startswith("v100-01: /usr/bin/python3 has no deepspeed")
    assert list(causes.wrong_launcher("mpirun", looks(deepspeed=False))) == []


def test_versions_that_differ() -> None:
    """Each node's is told."""
    assert list(causes.different(looks())) == []
    assert list(causes.different(looks(torch="1.13.1", nccl=None))) == [
        "torch differs: a100-01 2.1.0, v100-01 1.13.1",
        "NCCL differs: a100-01 2.18.1, v100-01 none",
    ]


@pytest.mark.parametrize(
    ("network", "address", "said"),
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
def test_data_on_another_way(network: str, address: str, said: bool) -> None:
    """The inventory's address is the way that is meant; InfiniBand has none."""
    told = list(causes.beside([Row(node="a100-01", network=network)], {"a100-01": address}))
    assert bool(told) == said


def rank(number: int, stage: str, **more: object) -> Rank:
    """A rank that came as far as a stage."""
    reached = STAGES[: STAGES.index(stage) + 1]
    told = {each: {"own_address": "10.0.0.5"} for each in reached}
    return Rank(number, START.seats[number].peer.name, told | ({"failed": more} if more else {}))


@pytest.mark.parametrize(
    ("stage", "cause"),
    [
        ("started", "a slow disk"),
        ("imported", "did not reach a100-01 at port 29500"),
        ("connected", "could form no group"),
        ("init", "a firewall"),
        ("small", "an MTU"),
        ("large", "a larger --timeout"),
    ],
)
def test_a_stage_that_was_the_last(stage: str, cause: str) -> None:
    """Who came how far, and what mostly keeps the next stage from coming."""
    (said,) = causes.stopped(START, [rank(0, "done"), rank(1, stage)], {})
    assert said.startswith(f"rank 1 (v100-01) came as far as '{stage}' within 60 s: ")
    assert cause in said


def test_nothing_to_say() -> None:
    """Both added up what they should."""
    assert list(causes.stopped(START, [rank(0, "done"), rank(1, "done")], {})) == []


def test_a_launcher_that_fails_in_the_end() -> None:
    """A job of the user's would be told failed, too."""
    told = {"a100-01": Told(exits={0: 0, 1: 1}, logs={1: ("OSError: no space",)})}
    (said,) = causes.stopped(START, [rank(0, "done"), rank(1, "done")], told)
    assert said == "every rank was done, and then torchrun ended with 1: OSError: no space"


def test_a_rank_that_failed_is_told_first() -> None:
    """Those that waited for it come behind."""
    first, second = causes.stopped(
        START, [rank(0, "connected"), rank(1, "small", error="ValueError: 3 of 4 sums")], {}
    )
    assert first == "v100-01: rank 1 failed after 'small': ValueError: 3 of 4 sums"
    assert second == "rank 0 (a100-01) came as far as 'connected', and waited for the others"


def test_the_hindmost_keeps_the_others() -> None:
    """Its stage alone has a cause."""
    first, second = causes.stopped(START, [rank(0, "imported"), rank(1, "started")], {})
    assert first.startswith("rank 1 (v100-01) came as far as 'started' within 60 s: torch was")
    assert second == "rank 0 (a100-01) came as far as 'imported', and waited for the others"


def test_a_launcher_that_waited_is_no_cause() -> None:
    """The one that failed is; the script then ends the others."""
    told = {"a100-01": Told(exits={1: 255}, logs={1: ("Connection refused",)})}
    (said,) = causes.stopped(START, [], told)
    assert said.startswith("v100-01: no rank started: a100-01 could not log in to v100-01")


def test_pdsh_names_the_node() -> None:
    """What it says of the login comes after what ssh said."""
    said = (
        "v100-01: root@v100-01: Permission denied",
        "pdsh@a100-01: v100-01: ssh exited with 255",
    )
    told = {"a100-01": Told(exits={0: 1}, logs={0: said})}
    start = replace(START, kind="deepspeed")
    first, second = causes.stopped(start, [rank(0, "imported")], told)
    assert first.endswith("deepspeed ended with 1: v100-01: root@v100-01: Permission denied")
    assert second == "rank 0 (a100-01) came as far as 'imported', and waited for the others"


def test_gloo_tells_the_others_a_loopback() -> None:
    """Debian's 127.0.1.1 for a machine's own name."""
    own = Rank(1, "v100-01", {"started": {"own_address": "127.0.1.1"}, "connected": {}})
    *_, said = causes.stopped(START, [rank(0, "init"), own], {})
    assert said.startswith("v100-01: its own name is 127.0.1.1 there")


@pytest.mark.parametrize(
    ("kind", "told", "said"),
    [
        (
            "torchrun",
            Told(exits={1: 255}, logs={1: ("root@v100-01: Permission denied (publickey).",)}),
            "a100-01 could not log in to v100-01, or lost it: root@v100-01: Permission denied",
        ),
        ("torchrun", Told(), "torchrun was not back after 60 s, without a word"),
        (
            "deepspeed",
            Told(exits={0: 1}, logs={0: ("Traceback (most", "RuntimeError: no pdsh", "  at x")}),
            "deepspeed ended with 1: RuntimeError: no pdsh",
        ),
    ],
)
def test_a_node_without_a_rank(kind: str, told: Told, said: str) -> None:
    """What its launcher said is the reason."""
    start = replace(START, kind=kind)
    (found,) = causes.stopped(start, [rank(0, "done")], {"v100-01": Told(), "a100-01": told})
    assert found.startswith(f"v100-01: no rank started: {said}")
