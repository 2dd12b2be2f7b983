"""Fails an operation that ended without an error and has changed nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State
from pyinfra.api.command import PyinfraCommand

Commands = Callable[[], Iterator[PyinfraCommand]]
C = TypeVar("C", bound=PyinfraCommand)
_UNCHECKED = "gpu_node_is_unchecked"


def unchecked(command: C) -> C:
    """Exempt a command: it only reports, leaves its work to a reboot, or checks it itself."""
    vars(command)[_UNCHECKED] = True
    return command


def effective(commands: Commands, names: Sequence[str]) -> Commands:
    """Return an operation's commands, followed by a failure if they have changed nothing.

    An operation is planned from facts: if these now lead to the same commands, then whatever it
    has to repair is as before.
    """

    def checked() -> Iterator[PyinfraCommand]:
        done: list[str] = []
        is_checked = False
        for command in commands():
            done.append(repr(command))
            is_checked = is_checked or _UNCHECKED not in vars(command)
            yield command
        if is_checked and done == [repr(each) for each in commands()]:
            yield FunctionCommand(_fail, [", ".join(names)], {})

    return checked


def _fail(state: State, host: Host, names: str) -> bool:
    logger.error(
        f"{host.print_prefix}{names}: ended without an error and changed nothing: the same is left "
        "to do; find what prevents or reverts it, and look at the node with gpu-node drift"
    )
    return False
