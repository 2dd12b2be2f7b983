"""Failures: if an area fails on a node, only it and the areas that depend on it stop there.

In an area with independent subjects, such as Python environments, only the failed subject stops.
A node on which an operation reached its time limit, or whose connection broke, is out of the run
at the end of that operation: each other area would delay the other nodes for as long again.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import gevent
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import AllArguments

from gpu_node.deploy.engine.run import node_of
from gpu_node.facts.ask.session import is_open
from gpu_node.inventories.connection.connector import missed

# A timer may be a little early.
_NEARLY = 0.98


@dataclass(frozen=True)
class Area:
    """The condition (`_if`) of an area's operations on a node: neither it nor a needed one failed.

    The node must not be out of the run either. A failed `subject` stops only operations about it.
    `behind` are nodes that end the same operation before this one begins it.
    """

    host: Host
    name: str
    after: Sequence[str] = ()
    subject: str = ""
    behind: tuple[Host, ...] = ()

    def __bool__(self) -> bool:
        """Return False, because pyinfra's dry run counts changes with a true `_if` separately.

        These changes are not conditional: an operation is skipped only after a failure.
        """
        return False

    def __call__(self) -> bool:
        node = node_of(self.host)
        if node.out:
            return False
        mine = {(self.name, ""), (self.name, self.subject)}
        return mine.isdisjoint(node.stopped) and set(node.failed).isdisjoint(self.after)


def alone(host: Host, name: str, seconds: int, after: Sequence[str] = ()) -> dict[str, Any]:
    """Return the arguments of an area's operations, so that a failure ends only this area.

    `seconds` is the time limit of each; `after` names the areas that this one needs.
    """
    # In a deploy file `host` is a proxy for the current host.
    itself = host.state.inventory.get_host(host.name)
    return {"_ignore_errors": True, "_if": Area(itself, name, after), "_timeout": seconds}


@contextmanager
def apart(host: Host, subject: str) -> Iterator[None]:
    """Let a failure of the operations within end only what is about this subject, not its area."""
    with _replaced(host, lambda area: replace(area, subject=subject)):
        yield


@contextmanager
def whole(host: Host) -> Iterator[None]:
    """Let the operations within run only where no subject of their area has failed."""
    with _replaced(host, lambda area: replace(area, after=(*area.after, area.name))):
        yield


def put_behind(host: Host, others: Iterable[str]) -> None:
    """Let each later operation of this step begin when those nodes have ended it, or failed.

    They must be before this one in the run's order: then no two wait for each other.
    """
    itself = host.state.inventory.get_host(host.name)
    behind = tuple(map(host.state.inventory.get_host, others))
    _replace(itself, lambda area: replace(area, behind=behind))


@contextmanager
def _replaced(host: Host, change: Callable[[Area], Area]) -> Iterator[None]:
    itself = host.state.inventory.get_host(host.name)
    arguments = itself.current_deploy_kwargs
    _replace(itself, change)
    try:
        yield
    finally:
        itself.current_deploy_kwargs = arguments


def _replace(host: Host, change: Callable[[Area], Area]) -> None:
    arguments: Mapping[str, Any] = host.current_deploy_kwargs or {}
    area = arguments.get("_if")
    if isinstance(area, Area):
        changed = {**arguments, "_if": change(area)}
        host.current_deploy_kwargs = cast(AllArguments, changed)


def wait(state: State, host: Host, operation: str, others: Iterable[Host]) -> None:
    """Wait until other nodes have ended an operation (its hash), or are out of the run."""
    for other in others:
        while _is_to_end(state, other, operation):
            gevent.sleep(0.1)
    # The time of the others is not this node's.
    begin(host)


def _is_to_end(state: State, host: Host, operation: str) -> bool:
    made = state.ops[host].get(operation)
    return made is not None and not made.operation_meta.is_complete() and host in state.active_hosts


def begin(host: Host) -> None:
    """Note that an operation begins on a node."""
    node_of(host).operation_began = time.monotonic()
    missed(host)


def note(state: State, host: Host, operation: str) -> None:
    """Note that an operation (its hash) failed on a node; one outside of all areas is not noted."""
    arguments = state.get_op_data_for_host(host, operation).global_arguments
    node = node_of(host)
    for area in areas(arguments):
        if (area.name, area.subject) in node.stopped:
            continue
        node.stopped.add((area.name, area.subject))
        if area.name not in node.failed:
            node.failed.append(area.name)
        _log_failure(host, area, _lost(host, area.name, arguments.get("_timeout") or 0))


def areas(arguments: Mapping[str, Any]) -> list[Area]:
    """Return the areas of an operation, by its global arguments; the proof is outside of all."""
    condition = arguments.get("_if")
    conditions = condition if isinstance(condition, list) else [condition]
    return [each for each in conditions if isinstance(each, Area)]


def _lost(host: Host, area: str, limit: float) -> str:
    """Return why a node is out of the run after a failure; empty if it is not."""
    now = time.monotonic()
    began = node_of(host).operation_began
    took = 0 if began is None else now - began
    # pyinfra reports a fact's time limit only as text.
    if limit and max(took, missed(host)) >= limit * _NEARLY:
        return f"an operation of {area} did not end within its time limit ({limit:.0f} s)"
    return "" if is_open(host.connector) else f"its connection broke in an operation of {area}"


def _log_failure(host: Host, area: Area, lost: str) -> None:
    if not lost:
        what = f"{area.name}: {area.subject}" if area.subject else area.name
        rest = f"the rest of {area.name} and the other areas" if area.subject else "the other areas"
        logger.error(
            f"{host.print_prefix}{what}: failed; {rest} go on, and the node fails at the end"
        )
        return
    node = node_of(host)
    node.out = node.out or lost
    logger.error(
        f"{host.print_prefix}{area.name}: failed: {lost}; the node is out of this run, its "
        "other areas are not tried, and the other nodes go on: find what blocks it, and run again "
        f"with --limit {host.name}: that run finishes the work"
    )


def leave(state: State) -> None:
    """Fail the nodes that are out of the run: nothing more is tried or printed about them."""
    state.fail_hosts({host for host in state.active_hosts if node_of(host).out})
