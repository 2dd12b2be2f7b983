"""Restarts: what is waited for, what counts as back, and where a roll-out ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.exceptions import PyinfraError

from deploy import restart
from facts.node import NodeState
from tests.drift import states

VERSION = "535.154.05"


class Run:
    """A run's state, which outlives its weak references."""


class Node:
    """A host as far as a restart asks for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.print_prefix = f"[{name}] "
        self.connector = None


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A node's answers: its boot, whether a reboot was asked for, and what the probe then finds."""
    answers = SimpleNamespace(
        boots=iter(["one"]), asked="yes", found=states.found(), reached=True, slept=0
    )

    def said(connector: object, command: str) -> Any:
        return answers.asked if restart.MARK in command else next(answers.boots, None)

    @contextmanager
    def fresh(host: object) -> Iterator[None]:
        if not answers.reached:
            raise PyinfraError("no route to host")
        yield None

    def probe(host: object, connector: object) -> NodeState:
        found: NodeState = answers.found
        return found

    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr(restart, "_said", said)
    monkeypatch.setattr(restart, "fresh", fresh)
    monkeypatch.setattr(restart, "probe", probe)
    monkeypatch.setattr(restart, "sleep", lambda seconds: None)
    monkeypatch.setattr(restart, "monotonic", lambda: next(clock))
    return answers


def test_a_node_that_comes_back(world: SimpleNamespace) -> None:
    """Another boot, and the driver is right; the old boot, and silence, are waited for."""
    run: Any = Run()
    node: Any = Node("a")
    world.boots = iter(["one", None, "one", "two"])
    assert restart.begin(run, node)
    assert restart.finish(run, node, VERSION)
    world.boots = iter(["one"])
    other: Any = Node("b")
    assert restart.begin(run, other)


def test_a_node_for_which_none_was_due(world: SimpleNamespace) -> None:
    """It decided by itself, and nobody waits."""
    run: Any = Run()
    node: Any = Node("a")
    world.asked = "no"
    assert restart.begin(run, node)
    assert restart.finish(run, node, VERSION)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reached": False}, "did not come back within 1800 s"),
        ({"found": {"loaded": {"nvidia": ""}}}, "is back with no nvidia module loaded"),
        ({"found": {"loaded": {"nvidia": "535.1.1"}}}, "is back with nvidia 535.1.1 loaded"),
        ({"found": {"smi": {"gpus": [], "said": "No devices were found"}}}, "No devices"),
    ],
)
def test_the_roll_out_ends_there(
    world: SimpleNamespace, caplog: pytest.LogCaptureFixture, change: dict[str, Any], says: str
) -> None:
    """The node fails, and so does each that would be rebooted after it."""
    run: Any = Run()
    first: Any = Node("a")
    second: Any = Node("b")
    world.boots = iter(["one", "two", "three"])
    world.reached = change.get("reached", True)
    world.found = states.found({"driver": change.get("found", {})})
    assert restart.begin(run, first)
    assert not restart.finish(run, first, VERSION)
    assert says in caplog.text
    assert not restart.begin(run, second)
    assert "not rebooted: a did not come back" in caplog.text


def test_another_run_begins_anew(world: SimpleNamespace) -> None:
    """What stopped one run is not remembered for the next."""
    one: Any = Run()
    two: Any = Run()
    node: Any = Node("a")
    world.boots = iter([None, "one"])
    assert not restart.begin(one, node)
    assert restart.begin(two, node)
