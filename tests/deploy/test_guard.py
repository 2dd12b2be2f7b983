"""A run with a node whose answer breaks something: that node fails, the others are repaired."""

from __future__ import annotations

import logging
import runpy
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from pyinfra.api import Config, FunctionCommand, Host, Inventory, State, operation
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operation import add_op
from pyinfra.api.operations import run_ops
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_host, ctx_state

from gpu_node.deploy.driver import step as driver
from gpu_node.deploy.engine import baseline as before
from gpu_node.deploy.engine import interruption, planning, shared, summary
from gpu_node.deploy.engine.contained import contain, contained
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.run import run_of
from gpu_node.deploy.ssh.step import _asked
from gpu_node.drift.engine import judgement
from gpu_node.drift.engine.judgement import Judgement
from gpu_node.drift.engine.nodes import Judged, Nodes
from gpu_node.drift.ssh.mesh import hosts_wanted, known_wanted
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.file_systems import Place
from tests.drift import hostile, states
from tests.drift.stub import stub
from tests.drift.test_judging import _hostile, _peers
from tests.examples import examples

DEPLOY = Path(__file__).parents[2] / "deploy"
PEERS = stub("ssh.peers", _peers, when="with peers")
NAMES = ["a", "x", "b"]
HEALTHY = {"a100-01": states.state(states.MESH), **states.nodes().states}
BROKEN = ValueError("no \x1b[31m number")


@pytest.fixture
def state() -> State:
    """A run over three nodes, none of which is connected."""
    inventory = Inventory((NAMES, {"ssh_hostname": "192.0.2.1"}))
    state = State(inventory, Config())
    state.set_stage(StateStage.Prepare)
    for host in inventory:
        state.activate_host(host)
    return state


def host_of(state: State, name: str) -> Host:
    host = state.inventory.get_host(name)
    assert host is not None
    return host


def there(state: State) -> list[str]:
    return [each for each in NAMES if host_of(state, each) in state.active_hosts]


@operation()
def repair(done: list[str], where: str) -> Generator[FunctionCommand, None, None]:
    """What a node says breaks the second command, or what that does."""
    from pyinfra import host

    def work(state: State, host: Host) -> bool:
        if where == "function" and host.name == "x":
            raise BROKEN
        done.append(host.name)
        return True

    yield FunctionCommand(lambda state, host: True, [], {})
    if where == "commands" and host.name == "x" and host.state.is_executing:
        raise BROKEN
    yield FunctionCommand(work, [], {})


@pytest.mark.parametrize("where", ["commands", "function"])
def test_an_operation_that_breaks_fails_on_its_node_alone(
    state: State, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line, and no traceback."""
    caplog.set_level(logging.INFO)
    done: list[str] = []
    contain(state)
    contain(state)
    add_op(state, repair, done, where)
    state.set_stage(StateStage.Execute)
    run_ops(state)
    assert sorted(done) == ["a", "b"]
    assert there(state) == ["a", "b"]
    reported = [each.message for each in caplog.records if "cannot be repaired" in each.message]
    assert len(reported) == 1
    assert r"ValueError: no \x1b[31m number" in reported[0]
    assert "Traceback" not in caplog.text


def test_a_plan_that_breaks_fails_its_node_alone(state: State) -> None:
    """Before anything was changed."""
    for host in state.inventory:
        with contained(host):
            if host.name == "x":
                raise BROKEN
    assert there(state) == ["a", "b"]


@pytest.mark.parametrize("name", ["gpu_node", "environments"])
def test_a_deploy_whose_plan_breaks_fails_its_node_alone(
    name: str, state: State, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of our deploys: its operations of the other nodes are planned."""
    planned: list[str] = []

    def plan(host: Host) -> None:
        if host.name == "x":
            raise BROKEN
        planned.append(host.name)

    monkeypatch.setattr(planning, "plan", plan)
    monkeypatch.setattr(interruption, "watch", lambda state: None)
    monkeypatch.setattr(summary, "announce", lambda state: None)
    with ctx_state.use(state):
        for host in state.inventory:
            with ctx_host.use(host):
                runpy.run_path(str(DEPLOY / f"{name}.py"))
    assert planned == there(state) == ["a", "b"]
    assert r"[x] cannot be repaired, its answer is not understood: ValueError" in caplog.text


def test_a_mistake_in_the_inventory_is_no_nodes(state: State) -> None:
    """It ends the run before it begins."""
    with pytest.raises(PyinfraError), contained(host_of(state, "x")):
        raise PyinfraError("shm: 16 is no size")
    assert there(state) == NAMES


def test_an_answer_that_breaks_its_reader_is_that_nodes_error(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have been read."""

    def probe(host: Host) -> NodeState:
        if host.name == "x":
            raise BROKEN
        return states.state()

    monkeypatch.setattr(before, "probe", probe)
    monkeypatch.setattr(before, "tune", lambda connector: None)
    assert before.state_of(host_of(state, "a")) == states.state()
    with pytest.raises(ProbeError, match="not understood: ValueError"):
        before.state_of(host_of(state, "x"))
    assert set(before.states(state)) == {"a", "b"}


@pytest.fixture
def asked(state: State, monkeypatch: pytest.MonkeyPatch) -> State:
    """A run that has asked its nodes: x says what a rule between nodes cannot judge."""
    monkeypatch.setattr(judgement, "_BY_AREA", (PEERS,))
    monkeypatch.setattr(planning, "wanted_of", lambda host: states.wanted())
    run_of(state).baseline.answers(
        state, lambda host: _hostile() if host.name == "x" else states.state()
    )
    return state


def test_no_node_is_changed_by_what_no_rule_can_judge(asked: State) -> None:
    """It is left out of what the others are repaired by, and has the finding."""
    made = planning.plans(asked)
    assert set(made["a"].nodes.states) == {"a", "b"}
    assert [each.rule for each in made["a"].findings] == ["ssh.peers"]
    assert [each.rule for each in made["x"].findings] == ["ssh.unreadable"]
    assert not made["x"].is_repaired


def test_a_run_judges_once(asked: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes together; other states are judged anew."""
    counted: list[int] = []

    def judge(nodes: dict[str, Judged]) -> Judgement:
        counted.append(len(nodes))
        return Judgement({name: [] for name in nodes})

    monkeypatch.setattr(planning, "judge", judge)
    for name in NAMES:
        planning.findings_of(host_of(asked, name), before.states(asked))
    assert counted == [3]
    planning.findings_of(host_of(asked, "a"), {"a": states.state()})
    assert counted == [3, 1]


def test_a_plan_that_cannot_be_asked_is_its_own_nodes(
    asked: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others ask each plan whether it changes its node."""

    def target(found: Any, wanted: Any) -> str:
        raise BROKEN

    switched = SimpleNamespace(get=lambda key: key == "reboot", dict=dict)
    monkeypatch.setattr(host_of(asked, "x"), "data", switched)
    monkeypatch.setattr(driver, "target", target)
    change = {"driver_version": "535"}
    monkeypatch.setattr(planning, "wanted_of", lambda host: states.wanted(change))
    assert set(planning.plans(asked)) == {"a", "b"}
    assert planning.any_changes(asked) in (True, False)


def test_a_node_cannot_say_that_a_disk_of_another_is_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer that no rule can judge does not stop the repair of the other node."""
    own = Place(kind="ext4", source="/dev/sda1", inode=7, changed="")
    network = own.model_copy(update={"kind": "nfs4"})
    made = {
        "x": cast(Plan, SimpleNamespace(nodes=SimpleNamespace(name="x"), state=None)),
        "a": cast(Plan, SimpleNamespace(nodes=SimpleNamespace(name="a"), state=own)),
    }
    monkeypatch.setattr(shared, "host", SimpleNamespace(state=None, print_prefix=""))
    monkeypatch.setattr(shared, "plans", lambda state: made)

    def places(found: Any) -> Any:
        if found is None:
            raise BROKEN
        return {"/opt/dis": found}

    assert shared.is_writer(made["a"], "/opt/dis", places, lambda each: True)
    assert not shared.versions_differ(
        made["a"], "/opt/dis", places, lambda each: each.nodes.name, PEERS
    )
    assert shared.nodes_sharing(made["a"], places) == ["a"]
    made["a"] = cast(Plan, SimpleNamespace(nodes=made["a"].nodes, state=network))
    awaited: list[str] = []
    monkeypatch.setattr(shared, "put_behind", lambda host, names: awaited.extend(names))
    assert shared.is_writer(made["a"], "/opt/dis", places, lambda each: True)
    assert awaited == ["x"]


@pytest.mark.parametrize("user", ["alice", "root"])
def test_no_key_is_let_in_as_another_user(user: str) -> None:
    """Of the nodes whose training user is root, whatever a node of alice's claims."""
    around = states.nodes({"states": {"v100-01": {"ssh": {"account": {"user": user}}}}})
    named = tuple(
        each.model_copy(update={"user": "root" if each.name == "a100-01" else "alice"})
        for each in around.peers
    )
    made = Plan(states.wanted(), HEALTHY["a100-01"], (), replace(around, peers=named))
    assert list(_asked(made)) == ["a100-01"]


@given(hostile.changes())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_on_a_node_is_made_of_any_answer(change: dict[str, str]) -> None:
    """Whatever another node says, the repair of this one can be planned."""
    around = Nodes("a100-01", hostile.PEERS, {**HEALTHY, hostile.NAME: hostile.found(change)})
    made = Plan(states.wanted(), HEALTHY["a100-01"], (), around)
    assert ascii((known_wanted(made.state, around), hosts_wanted(made.state, around), _asked(made)))
