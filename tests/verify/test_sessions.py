"""Whose GPUs are in use is left alone, and which Python a node's inventory means."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.connectors.util import CommandOutput, OutputLine

from facts.cluster import Peer
from facts.probe import MARK, Unreadable
from inventories.schema import NodeWanted
from verify import sessions
from verify.sessions import Node, Refused, require_idle


def node(**data: Any) -> Node:
    """A node with host data, without a connection."""
    given = {"ssh_hostname": "10.0.0.4", **data}
    host = SimpleNamespace(connector=None, data=SimpleNamespace(dict=lambda: given))
    peer = Peer(name="a100-01", address="10.0.0.4")
    return Node(cast(Any, host), peer, NodeWanted.from_data(given), "root")


def answering(monkeypatch: pytest.MonkeyPatch, text: str | Unreadable) -> list[bool]:
    """Have every question answered with this; returns whether each was asked with sudo."""
    asked: list[bool] = []

    def ask(*_: object, sudo: bool = False) -> str:
        asked.append(sudo)
        if isinstance(text, Unreadable):
            raise text
        return text

    monkeypatch.setattr(sessions, "ask", ask)
    return asked


def test_a_job_that_runs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pid and user are told, and the word that says otherwise."""
    asked = answering(
        monkeypatch,
        "12\troot\tnvidia-persiste\t/usr/bin/nvidia-persistenced\n4711\tzhang\tpython\t/usr/bin/python3\n",
    )
    with pytest.raises(Refused) as refused:
        require_idle(node(_sudo=True))
    assert "a100-01: GPUs are held by pid 4711 (zhang: python); nothing" in str(refused.value)
    assert "--allow-disruption" in str(refused.value)
    assert asked == [True]


def test_an_idle_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The persistence daemon is nobody's job."""
    assert answering(monkeypatch, "12\troot\tnvidia-persiste\t/usr/bin/nvidia-persistenced\n") == []
    require_idle(node())
    answering(monkeypatch, "")
    require_idle(node())


TTY = "sudo: sorry, you must have a tty to run sudo"


@pytest.mark.parametrize(
    ("sudo", "stream", "lines"),
    [
        (True, "stderr", [TTY]),
        # It may not become the user who trains.
        (
            False,
            "stdout",
            [
                f"{MARK} begin driver.processes 1 raw {len(TTY)}",
                TTY,
                f"{MARK} end driver.processes",
            ],
        ),
    ],
)
def test_a_sudo_that_refuses(sudo: bool, stream: str, lines: list[str]) -> None:
    """Its words have a reason and a next step."""
    output = CommandOutput([OutputLine(stream, line) for line in lines])
    connector = SimpleNamespace(run_shell_command=lambda *_, **__: (False, output))
    asked = node(_sudo=sudo, ssh_user="alice")
    asked.host.connector = cast(Any, connector)
    with pytest.raises(Refused) as refused:
        require_idle(asked)
    assert "requiretty is set in the node's sudoers" in str(refused.value)
    assert "`Defaults:alice !requiretty`" in str(refused.value)


def test_who_holds_gpus_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read is never taken for nobody."""
    answering(monkeypatch, Unreadable("no answer within 20 s"))
    with pytest.raises(Refused, match="a100-01: could not tell who holds its GPUs: no answer"):
        require_idle(node())


def test_the_python_that_is_meant() -> None:
    """The launcher's, else the first environment's, else whichever python3 is found."""
    environments = ("/opt/conda/envs/dis/", "/opt/other")
    assert node().python() == ""
    assert node(nccl_environments=environments).python() == "/opt/conda/envs/dis/bin/python"
    both = node(nccl_environments=environments, launcher_python="/usr/bin/python3")
    assert both.python() == "/usr/bin/python3"
