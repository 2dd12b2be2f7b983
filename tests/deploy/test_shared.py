"""Files that nodes share: one node of a run changes them, and all others are asked before."""

from __future__ import annotations

import logging
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import gevent
import pytest
from pyinfra import host as pyinfra_host
from pyinfra.api import Config, FunctionCommand, Host, Inventory, State, deploy, operation
from pyinfra.api.operations import run_ops
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_host, ctx_state

from gpu_node.deploy.engine import shared
from gpu_node.deploy.engine.contained import contain
from gpu_node.deploy.engine.failures import alone
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.run import run_of
from gpu_node.deploy.nccl import pip
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.nccl.rules import loaded_mismatch
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.file_systems import Place, Places
from tests.drift import states

PREFIX = "/nfs/envs/dis"
PLACE = Place(
    kind="nfs4", source="nas:/envs", inode=7, changed="2026-11-21 17:37:02.400000000 +0000"
)
# What a node may claim that does not have the file: it cannot know the ctime.
FORGED = PLACE.model_copy(update={"inode": 8, "changed": ""})
SAME_INODE = PLACE.model_copy(update={"changed": "2026-11-21 17:37:02.000000000 +0000"})
OWN_DISK = PLACE.model_copy(update={"kind": "ext4", "source": "/dev/sda1"})


def placed(place: Place | None) -> NodeState:
    """Return a node whose environment lies in that place; None where it is unknown."""
    places = None if place is None else {PREFIX: {PREFIX: place.model_dump()}}
    return states.state({"nccl": {"places": places}})


def lies(state: NodeState) -> Places | None:
    return (state.nccl.places or {}).get(PREFIX)


def plan(name: str, place: Place | None) -> Plan:
    """Return a plan for a node of that name."""
    return cast(Plan, SimpleNamespace(nodes=SimpleNamespace(name=name), state=placed(place)))


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the nodes for which others wait, because they may have the same folder."""
    host = SimpleNamespace(state=None, print_prefix="")
    monkeypatch.setattr(shared, "host", host)
    waited: list[str] = []
    monkeypatch.setattr(shared, "put_behind", lambda host, names: waited.extend(names))
    return waited


def who_changes(
    monkeypatch: pytest.MonkeyPatch, places: dict[str, Place | None], wanting: str
) -> list[str]:
    """Return the nodes that change the files, of those that want to."""
    made = {name: plan(name, place) for name, place in places.items()}
    monkeypatch.setattr(shared, "plans", lambda state: made)
    return [
        name
        for name in wanting.split()
        if shared.is_writer(made[name], PREFIX, lies, lambda each: each.nodes.name in wanting)
    ]


@pytest.mark.parametrize(
    ("places", "wanting", "changing", "awaited"),
    [
        pytest.param({"a": PLACE, "b": PLACE}, "a b", ["a"], [], id="one folder"),
        pytest.param({"a": PLACE, "b": PLACE}, "b", ["b"], [], id="the first that wants to"),
        pytest.param({"a": OWN_DISK, "b": OWN_DISK}, "a b", ["a", "b"], [], id="cloned disks"),
        pytest.param({"a": PLACE, "b": None}, "a b", ["a", "b"], ["a"], id="unknown: it may be"),
        pytest.param({"a": None, "b": PLACE}, "a b", ["a", "b"], ["a"], id="the first is silent"),
        pytest.param({"a": FORGED, "b": PLACE}, "a b", ["a", "b"], ["a"], id="a forged source"),
        pytest.param({"a": SAME_INODE, "b": PLACE}, "a b", ["a", "b"], ["a"], id="a forged inode"),
        pytest.param({"a": PLACE, "b": OWN_DISK, "c": PLACE}, "a b c", ["a", "b"], [], id="three"),
    ],
)
def test_one_node_changes_what_is_shared(
    monkeypatch: pytest.MonkeyPatch,
    hosts: list[str],
    places: dict[str, Place | None],
    wanting: str,
    changing: list[str],
    awaited: list[str],
) -> None:
    """A node that does not have another one's files, whatever it claims, leaves no repair out."""
    assert who_changes(monkeypatch, places, wanting) == changing
    assert hosts == awaited


@pytest.mark.usefixtures("hosts")
def test_the_other_node_says_who_changes_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    who_changes(monkeypatch, {"a": PLACE, "b": PLACE}, "a b")
    assert f"{PREFIX}: a, which shares it, changes it" in caplog.text


@operation()
def note(done: list[str], shared: set[str], fails: bool) -> Generator[FunctionCommand, None, None]:
    """Write a file that nodes may share, unless it is there."""
    name = pyinfra_host.name

    def write() -> bool:
        done.append(f"{name} begins")
        gevent.sleep(0.2)
        done.append(f"{name} ends")
        shared.update(() if fails else {"written"})
        return not fails

    if not shared:
        yield FunctionCommand(write, [], {})


@pytest.mark.parametrize("is_one", [True, False], ids=["one folder", "two folders"])
@pytest.mark.parametrize("fails", [False, True], ids=["a repairs it", "a fails"])
def test_nodes_that_may_share_files_change_them_in_turn(
    monkeypatch: pytest.MonkeyPatch, is_one: bool, fails: bool
) -> None:
    """The second one has nothing left to do if it is one folder, and is repaired in any case."""
    done: list[str] = []
    files: dict[str, set[str]] = {"a": set(), "b": set()}
    if is_one:
        files["b"] = files["a"]
    state = State(Inventory((["a", "b"], {})), Config())
    contain(state)
    made = {"a": plan("a", FORGED), "b": plan("b", PLACE)}
    monkeypatch.setattr(shared, "plans", lambda state: made)

    @deploy("Part")
    def part() -> None:
        name = pyinfra_host.name
        assert shared.is_writer(made[name], PREFIX, lies, lambda each: True)
        note(done=done, shared=files[name], fails=fails and name == "a")

    for each in state.inventory:
        state.activate_host(each)
        with ctx_state.use(state), ctx_host.use(each):
            part(**alone(each, "env", 60))
    state.print_output = state.print_input = False
    state.set_stage(StateStage.Execute)
    run_ops(state)
    b_works = ["b begins", "b ends"] if fails or not is_one else []
    assert done == ["a begins", "a ends", *b_works]


@pytest.mark.parametrize(
    ("theirs", "place", "is_refused"),
    [
        pytest.param("2.18.1", PLACE, False, id="the same"),
        pytest.param("2.19.3", PLACE, True, id="another one"),
        pytest.param(None, PLACE, False, id="not managed there"),
        pytest.param("2.19.3", OWN_DISK, False, id="a disk of its own"),
    ],
)
@pytest.mark.usefixtures("hosts")
def test_two_versions_for_one_folder(
    monkeypatch: pytest.MonkeyPatch, theirs: str | None, place: Place, is_refused: bool
) -> None:
    """Each node would undo what the other one wants: neither changes it."""
    refused: list[Finding] = []
    made = {"a": plan("a", PLACE), "b": plan("b", place)}
    versions = {"a": "2.18.1", "b": theirs}
    monkeypatch.setattr(shared, "plans", lambda state: made)
    monkeypatch.setattr(shared, "refuse", lambda name, findings: refused.extend(findings))
    contrary = shared.versions_differ(
        made["a"], PREFIX, lies, lambda each: versions[each.nodes.name], loaded_mismatch
    )
    assert contrary is is_refused
    assert [(each.rule, each.step, each.found) for each in refused] == [
        ("nccl.loaded-mismatch", "nccl", "a and b may share it, but want different versions")
    ] * is_refused


def is_idle(
    monkeypatch: pytest.MonkeyPatch, run: dict[str, Place | None], answer: str | Exception | None
) -> bool:
    """Return whether node a may change the folder, where others answer that about their GPUs."""
    state = State()
    nodes = [cast(Host, SimpleNamespace(name=name, state=state, print_prefix="")) for name in run]
    state.active_hosts = cast(Any, [each for each in nodes if each.name != "limited"])
    state.inventory = cast(Any, nodes)
    run_of(state).baseline.answers(state, lambda host: placed(run[host.name]))

    def in_use(other: Host) -> str | None:
        if isinstance(answer, Exception):
            raise answer
        return answer and f"{other.name}: {answer}"

    monkeypatch.setattr(pip, "_asked", lambda other, _: lies(placed(run[other.name])))
    monkeypatch.setattr(pip, "_in_use", in_use)
    return pip.refuse_if_in_use(state, nodes[0], PREFIX)


BUSY = "in use by pid 7 (zhang: python train.py)"


@pytest.mark.parametrize("name", ["b", "limited"])
@pytest.mark.parametrize(
    ("place", "answer", "expected"),
    [
        pytest.param(PLACE, BUSY, BUSY, id="a job"),
        pytest.param(PLACE, None, "", id="idle"),
        pytest.param(OWN_DISK, BUSY, "", id="a disk of its own"),
        pytest.param(PLACE, TimeoutError(), "cannot be asked", id="no answer"),
    ],
)
def test_a_job_on_another_node(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    place: Place,
    answer: str | Exception | None,
    expected: str,
) -> None:
    """It counts where that node may have the folder, also one that this run leaves out."""
    assert is_idle(monkeypatch, {"a": PLACE, name: place}, answer) is not bool(expected)
    assert expected in caplog.text
    assert bool(caplog.text) is bool(expected)
