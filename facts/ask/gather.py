"""Gather: every node of an inventory is asked in parallel; a failure stays with its node."""

from __future__ import annotations

import fnmatch
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyinfra.api import Config, Host, Inventory, State
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_config, ctx_host, ctx_inventory, ctx_state
from pyinfra_cli.exceptions import UnexpectedExternalError
from pyinfra_cli.inventory import make_inventory

from facts.host_key import UNFINISHED
from facts.node import NodeState
from facts.probe import Readings, Section
from facts.session import ProbeError, ask, close, probe, tune

CONNECT_SECONDS = 10
# Nodes probed at once; pyinfra's own default would be 20 for each processor.
PARALLEL = 50
# pyinfra's own default accepts an unknown host key and writes it down.
VERIFIED = {"ssh_strict_host_key_checking": "yes"}


@dataclass(frozen=True)
class Answer:
    """One node's answer: the inventory's data about it, and its state or an error."""

    data: dict[str, Any]
    state: NodeState | None = None
    error: str | None = None
    reached: bool = False
    # What `error` is the words of.
    cause: Exception | None = None


T = TypeVar("T")


@dataclass(frozen=True)
class _Reply(Generic[T]):
    """What asking one node came to; the fields are those of `Answer`."""

    data: dict[str, Any]
    told: T | None = None
    error: str | None = None
    reached: bool = False
    cause: Exception | None = None


class NoHosts(PyinfraError):
    """The inventory, or what --limit leaves of it, names no host."""


class NotConnected(Exception):
    """A node that no session can be had with; str() is the reason, `cause` who gave it.

    `seconds` are what it took.
    """

    def __init__(self, cause: Exception, seconds: float = 0) -> None:
        reason = str(cause).replace("[Errno None] ", "")  # paramiko has none to tell
        # It says the same of an sshd that hangs up, which it does not wait for.
        if UNFINISHED in reason and seconds >= CONNECT_SECONDS:
            reason = f"it accepts connections, but sshd says nothing within {CONNECT_SECONDS} s"
        super().__init__(reason or type(cause).__name__)
        self.cause = cause


def gather(
    inventory_path: str, limits: Iterable[str] = (), deep: bool = False
) -> dict[str, Answer]:
    """Probe the nodes of an inventory file, by host name in the inventory's order.

    `deep` also reads through the files that are compared by their sums.

    Raises PyinfraError where the inventory cannot be used, `NoHosts` where no host is left.
    """
    replies = _each(inventory_path, limits, lambda host: probe(host, deep=deep))
    return {
        name: Answer(reply.data, reply.told, reply.error, reply.reached, reply.cause)
        for name, reply in replies.items()
    }


def ask_each(
    inventory_path: str, limits: Iterable[str], sections: Sequence[Section]
) -> dict[str, Readings | str]:
    """Ask the nodes of an inventory file some `sections`, in one exec a node.

    A node's answer is its readings, or the reason why there are none. Raises as `gather` does.
    """
    replies = _each(inventory_path, limits, lambda host: ask(host, sections))
    return {
        name: reply.told if reply.told is not None else reply.error or "no answer"
        for name, reply in replies.items()
    }


def _each(
    inventory_path: str, limits: Iterable[str], work: Callable[[Host], T]
) -> dict[str, _Reply[T]]:
    """Connect to the nodes and do `work` with each, by host name in the inventory's order."""
    with chosen(inventory_path, limits) as (state, hosts):
        replies = state.pool.map(lambda host: _reply(state, host, work), hosts)
    return {host.name: reply for host, reply in zip(hosts, replies, strict=True)}


@contextmanager
def chosen(inventory_path: str, limits: Iterable[str] = ()) -> Iterator[tuple[State, list[Host]]]:
    """Yield pyinfra's state and the hosts of an inventory file that `limits` leave, not connected.

    Raises PyinfraError where the inventory cannot be used, `NoHosts` where no host is left.
    """
    state = State(check_for_changes=False)
    config = Config(CONNECT_TIMEOUT=CONNECT_SECONDS, PARALLEL=PARALLEL)
    state.cwd = _here()
    with ctx_state.use(state), ctx_config.use(config):
        inventory = _inventory(inventory_path, state.cwd)
        with ctx_inventory.use(inventory):
            state.init(inventory, config)
            hosts = _limited(list(inventory), list(limits), inventory_path)
            state.set_stage(StateStage.Prepare)
            yield state, hosts


def host_data(inventory_path: str, name: str) -> dict[str, Any]:
    """Return an inventory's data about one host, which is not contacted; NoHosts if it has none."""
    hosts = all_data(inventory_path)
    if name not in hosts:
        raise NoHosts(f"{inventory_path} names no host {name}; hosts: {', '.join(hosts)}")
    return hosts[name]


def all_data(inventory_path: str) -> dict[str, dict[str, Any]]:
    """Return an inventory's data about every host by its name; none is contacted."""
    cwd = _here()
    with ctx_state.use(State(check_for_changes=False)), ctx_config.use(Config()):
        return {host.name: host.data.dict() for host in _inventory(inventory_path, cwd)}


def _here() -> str:
    """Return the working directory, from which an inventory file may import, as from pyinfra."""
    cwd = os.getcwd()
    if cwd not in sys.path:
        sys.path.append(cwd)
    return cwd


def _inventory(path: str, cwd: str) -> Inventory:
    """Load an inventory as pyinfra does; whatever is wrong with its file is a PyinfraError."""
    try:
        inventory: Inventory = make_inventory(path, cwd=cwd, override_data=VERIFIED)
        return inventory
    except PyinfraError:  # what is wrong with a cluster file names that file, and its line
        raise
    except UnexpectedExternalError as error:
        raise PyinfraError(f"{path}: {error.exception}") from error
    except (SyntaxError, ValueError, OSError) as error:
        raise PyinfraError(f"{path}: {error}") from error


def _limited(hosts: list[Host], limits: list[str], inventory_path: str) -> list[Host]:
    """Return the hosts that a group name or a pattern on the host name selects, as pyinfra does."""
    if not hosts:
        raise NoHosts(f"{inventory_path} names no host")
    for limit in limits:
        if not any(_selects(limit, host) for host in hosts):
            names = sorted({host.name for host in hosts})
            groups = sorted({group for host in hosts for group in host.groups})
            raise NoHosts(
                f"--limit {limit} selects no host of {inventory_path}; "
                f"hosts: {', '.join(names)}; groups: {', '.join(groups)}"
            )
    return [host for host in hosts if not limits or any(_selects(each, host) for each in limits)]


def _selects(limit: str, host: Host) -> bool:
    return limit in host.groups or fnmatch.fnmatch(host.name, limit)


def connect(state: State, host: Host) -> None:
    """Open pyinfra's session with a host; raises NotConnected."""
    begun = time.monotonic()
    try:
        host.connect(show_errors=False, raise_exceptions=True)
    except Exception as error:  # an unreadable key file is a PyinfraError, not a ConnectError
        raise NotConnected(error, time.monotonic() - begun) from error
    state.activate_host(host)
    tune(host.connector)


def _reply(state: State, host: Host, work: Callable[[Host], T]) -> _Reply[T]:
    """Connect to one node and ask it; nothing that goes wrong leaves this function."""
    data = host.data.dict()
    with ctx_host.use(host):
        try:
            connect(state, host)
        except NotConnected as error:
            return _Reply(data, error=str(error), cause=error.cause)
        try:
            return _Reply(data, told=work(host), reached=True)
        except ProbeError as error:
            return _Reply(data, error=str(error), reached=True)
        finally:
            close(host.connector)
