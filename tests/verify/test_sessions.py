"""A node whose GPUs are in use is refused; which Python the inventory names."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.connectors.util import CommandOutput, OutputLine

from gpu_node.facts.probe.peers import ONE_NAME, are_one
from gpu_node.facts.probe.protocol import MARK, Unreadable
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.verify import nodes, sessions
from gpu_node.verify.sessions import Refused, require_idle
from tests.verify.test_hostile import node as named

node = partial(named, "a100-01")


def answering(monkeypatch: pytest.MonkeyPatch, text: str | Unreadable) -> list[bool]:
    """Answer every query with this text; the list returned shows which of them used sudo."""
    asked: list[bool] = []

    def ask(*_: object, sudo: bool = False) -> str:
        asked.append(sudo)
        if isinstance(text, Unreadable):
            raise text
        return text

    monkeypatch.setattr(sessions, "ask", ask)
    return asked


def test_a_job_that_runs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has its pid and user, and the option that ignores it."""
    asked = answering(
        monkeypatch,
        "12\troot\tnvidia-persiste\t/usr/bin/nvidia-persistenced\n4711\tzhang\tpython\t/usr/bin/python3\n",
    )
    with pytest.raises(Refused) as refused:
        require_idle(node(_sudo=True))
    assert "a100-01: GPUs are held by pid 4711 (zhang: python); nothing" in str(refused.value)
    assert "--allow-disruption" in str(refused.value)
    assert asked == [True]


@pytest.mark.parametrize(("other", "named"), [("b1", "b1"), ("x\x1b", "another node")])
def test_one_machine_with_two_names(
    other: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of the report; a name that is none of the run is not repeated."""
    answering(monkeypatch, f"{nodes.SAME_MACHINE}{other}\n")
    with pytest.raises(Refused) as refused:
        sessions.look(node(), "run", "", ["b1", "a100-01"])
    assert str(refused.value).startswith(are_one(f"{named} and a100-01"))
    assert str(refused.value).endswith(ONE_NAME)


def test_an_idle_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The persistence daemon is not a job."""
    assert answering(monkeypatch, "12\troot\tnvidia-persiste\t/usr/bin/nvidia-persistenced\n") == []
    require_idle(node())
    answering(monkeypatch, "")
    require_idle(node())


TTY = "sudo: sorry, you must have a tty to run sudo"


@pytest.mark.parametrize(
    ("sudo", "stream", "lines"),
    [
        (True, "stderr", [TTY]),
        # It may not become the training user.
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
    """The message has a reason and a next step."""
    output = CommandOutput([OutputLine(stream, line) for line in lines])
    connector = SimpleNamespace(run_shell_command=lambda *_, **__: (False, output))
    asked = node(_sudo=sudo, ssh_user="alice")
    asked.host.connector = cast(Any, connector)
    with pytest.raises(Refused) as refused:
        require_idle(asked)
    assert "`Defaults:alice !requiretty`" in str(refused.value)


def test_the_holders_of_gpus_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unreadable does not mean idle."""
    answering(monkeypatch, Unreadable("no answer within 20 s"))
    with pytest.raises(
        Refused, match="a100-01: cannot determine which processes hold its GPUs: no answer"
    ):
        require_idle(node())


@pytest.mark.parametrize(
    ("password", "data", "by_sudo"),
    [
        ("x", {"_sudo": True, "ssh_user": "alice", "launcher_user": "train"}, True),
        ("", {"_sudo": True, "ssh_user": "alice", "launcher_user": "train"}, False),
        ("x", {"_sudo": True, "ssh_user": "alice"}, False),
        ("x", {"ssh_user": "root", "launcher_user": "train"}, False),
    ],
)
def test_root_starts_what_is_another_users(
    password: str, data: dict[str, Any], by_sudo: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where sudo takes a password: a script of the SSH user has none to give."""
    monkeypatch.setattr(SUDO, "_text", password)
    rights: list[object] = []
    output = CommandOutput([])
    asked = node(**data)

    def execute(*_: object, **given: object) -> tuple[bool, CommandOutput]:
        rights.append(given["_sudo"])
        return True, output

    asked.host.connector = cast(Any, SimpleNamespace(run_shell_command=execute))
    assert sessions.launch(asked, "true", 5) == ""
    assert rights == [by_sudo]


def test_the_python_of_a_node() -> None:
    """The launcher's, else the first environment's, else the python3 in PATH."""
    environments = ("/opt/conda/envs/dis/", "/opt/other")
    assert node().python() == ""
    assert node(nccl_environments=environments).python() == "/opt/conda/envs/dis/bin/python"
    both = node(nccl_environments=environments, launcher_python="/usr/bin/python3")
    assert both.python() == "/usr/bin/python3"
