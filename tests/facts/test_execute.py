"""Executing commands on a node: what is passed on, and why there is no answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from paramiko import SSHException
from pyinfra.api import StringCommand

from gpu_node.facts.ask.execute import NoAnswer, NoAnswerInTime, execute
from gpu_node.inventories.connection.capped import TooMuch

REPOSITORY = Path(__file__).parents[2]
# The one caller, pyinfra's own operations, and where its connector is replaced.
CALLERS = {
    "facts/ask/execute.py",
    "deploy/engine/scripts.py",
    "inventories/connection/connector.py",
}


def test_what_a_connection_is_given() -> None:
    """The command, the time limit, the rights, and stdin where there is any."""
    given: list[Any] = []

    def run_shell_command(command: StringCommand, *words: object, **named: object) -> Any:
        given.append((command.get_raw_value(), words, named))
        return True, "output"

    connector: Any = SimpleNamespace(run_shell_command=run_shell_command)
    done, output = execute(connector, "uptime", 20)
    assert (done, str(output)) == (True, "output")
    execute(connector, StringCommand("id -u"), 5, {"_sudo": True}, ["a line"], show=True)
    assert given == [
        ("uptime", (False, False), {"_timeout": 20}),
        ("id -u", (True, False), {"_sudo": True, "_timeout": 5, "_stdin": ["a line"]}),
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError("late"), "no answer within 20 s"),
        (TooMuch("16 MiB"), str(TooMuch("16 MiB"))),
        (SSHException("no channel"), "the connection broke: no channel"),
        (EOFError(), "the connection broke: EOFError"),
    ],
)
def test_why_there_is_no_answer(error: Exception, reason: str) -> None:
    """Each error of a transport is one error with its reason; a time limit stays a TimeoutError."""

    def run_shell_command(*_: object, **__: object) -> Any:
        raise error

    connector: Any = SimpleNamespace(run_shell_command=run_shell_command)
    with pytest.raises(NoAnswer) as caught:
        execute(connector, "uptime", 20)
    assert str(caught.value) == reason
    assert isinstance(caught.value, NoAnswerInTime) is isinstance(error, TimeoutError)
    assert isinstance(caught.value, TimeoutError) is isinstance(error, TimeoutError)


def test_no_other_module_executes_commands() -> None:
    """A second way would have its own limits and its own messages."""
    rooms = ("facts", "inventories", "drift", "deploy", "verify", "onboarding", "cli")
    modules = [path for room in rooms for path in (REPOSITORY / room).rglob("*.py")]
    found = {path for path in modules if "run_shell_command(" in path.read_text()}
    assert {str(path.relative_to(REPOSITORY)) for path in found} == CALLERS
