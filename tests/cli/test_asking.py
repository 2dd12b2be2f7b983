"""What a report says of a node that no session was had with: once, and what to do."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from paramiko import BadHostKeyException, ECDSAKey
from pyinfra.api.exceptions import ConnectError

from gpu_node.cli.asking import _name, ask
from gpu_node.facts.ask import gather
from gpu_node.facts.ask.gather import Answer, NotConnected
from tests.cli.answering import gathered
from tests.cli.test_trouble import at_port
from tests.drift import states


def test_a_changed_host_key_is_reported_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cause = ConnectError("SSH host key error (Host key for 192.0.2.5 does not match.)")
    cause.__context__ = BadHostKeyException("192.0.2.5", ECDSAKey.generate(), ECDSAKey.generate())
    answer = Answer(states.BASE["wanted"], error=str(NotConnected(cause)), cause=cause)
    monkeypatch.setattr("gpu_node.cli.asking.gather", gathered(answer))
    (seen,) = ask(str(folder / "site.py")).values()
    assert seen.error is not None
    assert seen.error.startswith("its host key has changed: pinned ecdsa-")


def test_a_node_that_accepts_and_says_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is paused: the kernel answers, and no sshd does."""
    monkeypatch.setattr(gather, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        (seen,) = ask(at_port(folder, server.getsockname()[1])).values()
    assert seen.error == "it accepts connections, but sshd sends nothing within 1 s"
    assert not seen.reached


def test_the_stage_names_who_has_not_answered() -> None:
    """As ranges; without a terminal there is none to update."""
    shown: list[str] = []
    status = SimpleNamespace(update=lambda text: shown.append(text.plain))
    for left in (("a-1", "a-2", "b"), ("b",), ()):
        _name(cast(Any, status), "Reading", left)
        _name(None, "Reading", left)
    assert shown == ["Reading: no answer yet from a-[1-2], b", "Reading: no answer yet from b"]


def test_a_session_that_ended_at_once_was_no_silence() -> None:
    """paramiko says the same of one that sshd hung up on, after too many keys."""
    error = ConnectError("SSH error (No existing session)")
    assert str(NotConnected(error, 0.5)) == "SSH error (No existing session)"


@pytest.mark.parametrize("sudo", [True, False])
def test_a_node_without_root(folder: Path, monkeypatch: pytest.MonkeyPatch, sudo: bool) -> None:
    """Its SSH user is not root, and the inventory allows no sudo."""
    user = {"name": "alice", "uid": 1000, "gids": [1000], "groups": ["alice"]}
    found = states.state({"limits": {"user": user}})
    answer = Answer({**states.BASE["wanted"], "_sudo": sudo}, found)
    monkeypatch.setattr("gpu_node.cli.asking.gather", gathered(answer))
    (seen,) = ask(str(folder / "site.py")).values()
    assert seen.without_root is not sudo


@pytest.mark.parametrize("allowed", [False, True])
def test_what_a_run_may_delete(
    folder: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    """The report before a run judges with --data allow_deletions=true, as the run does."""
    answer = Answer({**states.BASE["wanted"], "allow_deletions": allowed}, states.state({}))
    monkeypatch.setattr("gpu_node.cli.asking.gather", gathered(answer))
    (seen,) = ask(str(folder / "site.py"), data={"allow_deletions": allowed}).values()
    assert seen.allow_deletions is allowed
