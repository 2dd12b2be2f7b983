"""Contains errors: an error caused by one node's answer fails that node; the others continue."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import getfullargspec
from typing import Any

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import NestedOperationError, PyinfraError
from pyinfra.api.state import StateOperationHostData

from gpu_node.deploy.engine.failures import areas, wait
from gpu_node.deploy.engine.run import run_of
from gpu_node.facts.probe.bounds import in_words
from gpu_node.inventories.escape import visible
from gpu_node.inventories.pyinfra_patches import change_operations

Commands = Callable[[], Iterator[PyinfraCommand]]


@contextmanager
def contained(host: Host) -> Iterator[None]:
    """Fail a host, with a message, if its part of the run cannot be planned.

    An error in the inventory is a PyinfraError, which ends the run before it begins.
    """
    try:
        yield
    except PyinfraError:
        raise
    except Exception as error:  # of whatever class: an answer of the node's made it
        _log_failure(host, error)
        # In a deploy file `host` is a proxy for the current host, and must not be kept.
        host.state.fail_hosts({host.state.inventory.get_host(host.name)})


def contain(state: State) -> None:
    """Make each operation of a run fail only on its node.

    Otherwise pyinfra ends the run for all nodes if the commands of an operation cannot be made. A
    second call changes nothing.
    """
    run = run_of(state)
    if run.is_contained:
        return
    run.is_contained = True

    def change(host: Host, op_hash: str, op_data: StateOperationHostData) -> None:
        commands, within = op_data.command_generator, areas(op_data.global_arguments)
        if others := [other for area in within for other in area.behind]:
            commands = _in_turn(commands, state, partial(wait, state, host, op_hash, others))
        op_data.command_generator = _guarded(commands)

    change_operations(state, change)


def _in_turn(commands: Commands, state: State, wait: Callable[[], None]) -> Commands:
    """Make the commands when the node's turn has come: another node may have done the work."""

    def waiting() -> Iterator[PyinfraCommand]:
        if state.is_executing:
            wait()
        yield from commands()

    return waiting


def _guarded(commands: Commands) -> Commands:
    def guarded() -> Iterator[PyinfraCommand]:
        try:
            for command in commands():
                yield _quiet(command)
        except Exception as error:  # of whatever class: an answer of the node's made it
            yield FunctionCommand(_fail, [error], {})

    return guarded


def _quiet(command: PyinfraCommand) -> PyinfraCommand:
    """Return a command that fails with a message where pyinfra would print a traceback."""
    if isinstance(command, FunctionCommand):
        work = command.function
        named = getfullargspec(work).args
        if "state" in named and "host" in named and work is not _fail:
            command.function = _caught(work)
    return command


def _caught(work: Callable[..., Any]) -> Callable[..., Any]:
    def caught(state: State, host: Host, *args: Any, **kwargs: Any) -> Any:
        try:
            return work(state, host, *args, **kwargs)
        except (TimeoutError, NestedOperationError):  # pyinfra has messages for these
            raise
        except Exception as error:  # of whatever class: an answer of the node's made it
            return _fail(state, host, error)

    caught.__name__ = getattr(work, "__name__", "function")
    return caught


def _fail(state: State, host: Host, error: Exception) -> bool:
    _log_failure(host, error)
    return False


def _log_failure(host: Host, error: Exception) -> None:
    logger.error(
        visible(
            f"{host.print_prefix}cannot be repaired, its answer is not understood: "
            f"{in_words(error)}; "
            "the other nodes go on. Look at it with gpu-node drift"
        )
    )
