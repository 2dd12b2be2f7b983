"""Nodes of one run whose torch differs: told once for each other torch, whatever a deploy does."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, State

from deploy import before
from deploy.peers import tell_apart
from facts.node import NodeState
from tests.drift import states


def _told(caplog: pytest.LogCaptureFixture, torches: dict[str, str | None]) -> list[str]:
    """What is said of a run over nodes with these torches; None is an unreadable environment."""
    caplog.set_level(logging.WARNING)

    def ask(host: Host) -> NodeState:
        torch = torches[host.name]
        environment: Any = {"torch": {"version": torch}} if torch else None
        return states.found({"nccl": {"environments": {"/opt/dis": environment}}})

    state = State()
    hosts = [cast(Host, SimpleNamespace(name=name)) for name in torches]
    state.active_hosts = cast(Any, hosts)
    before._answers.answers(state, ask)
    for _ in torches:
        tell_apart(state)
    return [record.message for record in caplog.records]


def test_one_torch_everywhere(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is said."""
    assert _told(caplog, {"a100-01": "2.1.2", "v100-01": "2.1.2"}) == []


def test_another_torch(caplog: pytest.LogCaptureFixture) -> None:
    """Said once, with the torch of each node."""
    (said,) = _told(caplog, {"a100-01": "2.1.2", "v100-01": "2.3.0", "v100-02": "2.3.0"})
    assert (
        "a100-01 2.1.2, v100-01 2.3.0, v100-02 2.3.0; each gets the NCCL of its own torch" in said
    )


def test_what_could_not_be_read(caplog: pytest.LogCaptureFixture) -> None:
    """That is a finding of its own node, and no other torch."""
    assert _told(caplog, {"a100-01": "2.1.2", "v100-01": None}) == []
