"""Probes all nodes of an inventory in parallel; a failure affects only its node."""

import fnmatch
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Generic

import gevent
from pyinfra.api import Config, Host, Inventory, State
from pyinfra.api.connectors import get_execution_connector
from pyinfra.api.exceptions import ConnectorDataTypeError, PyinfraError
from pyinfra.api.state import StateStage
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.context import ctx_config, ctx_host, ctx_inventory, ctx_state
from pyinfra_cli.exceptions import UnexpectedExternalError
from pyinfra_cli.inventory import make_inventory
from typing_extensions import TypeVar

from gpu_node.facts.ask.bad_data import (
    bad_logins,
    misread_groups,
    not_groups,
    not_mappings,
    starting,
)
from gpu_node.facts.ask.patience import DEEP_LAST_SECONDS, GivenUp, Patience
from gpu_node.facts.ask.pyinfra_file import (
    CONNECTOR,
    INVENTORIES,
    INVENTORY_DATA,
    NO_INVENTORY,
    SUFFIX,
    loadable,
    pyinfra_file,
)
from gpu_node.facts.ask.session import ProbeError, ask, close, probe, tune
from gpu_node.facts.probe.bounds import in_words
from gpu_node.facts.probe.protocol import Readings, Section

if TYPE_CHECKING:
    from gpu_node.facts.node import NodeState

CONNECT_SECONDS = 10
# Nodes probed at the same time; pyinfra's default is 20 for each processor.
PARALLEL = 50
# Of more nodes no session is kept open until all have answered.
MOST_OPEN = 128
# paramiko's error for a handshake that has not ended.
_UNFINISHED = "No existing session"
# pyinfra's default accepts an unknown host key and stores it.
VERIFIED = {"ssh_strict_host_key_checking": "yes"}
# The number of a system's error; its words follow, and paramiko's number is None.
_NUMBER = re.compile(r"\[Errno (?:None|-?[0-9]+)\] ")


T = TypeVar("T", default="NodeState")


@dataclass(frozen=True)
class Answer(Generic[T]):
    """One node's answer: the inventory's data about it, and its state or an error.

    Where something else was asked than its state, `state` is the result of that.
    """

    data: dict[str, Any]
    state: T | None = None
    error: str | None = None
    reached: bool = False
    # The exception whose text `error` is.
    cause: Exception | None = None
    # The Slurm job that read the state; None where a login did.
    slurm_job: int | None = None


class NoHosts(PyinfraError):
    """The inventory, or the part that --limit selects, has no host."""


class NotConnected(Exception):
    """A node without a session; str() is the reason, `cause` the exception behind it.

    `seconds`: how long the attempt took.
    """

    def __init__(self, cause: Exception, seconds: float = 0) -> None:
        reason = _NUMBER.sub("", str(cause))
        # paramiko has the same error, at once, for an sshd that closes the connection.
        if _UNFINISHED in reason and seconds >= CONNECT_SECONDS:
            reason = f"it accepts connections, but sshd sends nothing within {CONNECT_SECONDS} s"
        if "No authentication methods available" in reason:
            reason = (
                "no key to log in with: ssh.key is not set, and neither ~/.ssh nor an agent has "
                "one; next: give ssh.key, or ssh-add"
            )
        super().__init__(reason or type(cause).__name__)
        self.cause = cause


def gather(
    inventory_path: str,
    limits: Iterable[str] = (),
    deep: bool = False,
    data: Mapping[str, object] | None = None,
    meanwhile: Iterable[None] = (),
    waiting: Callable[[Sequence[str]], None] = lambda names: None,
    only: tuple[str, ...] = (),
    then: Callable[[dict[Host, Answer]], dict[Host, Answer]] | None = None,
) -> dict[str, Answer]:
    """Probe the nodes of an inventory file, by host name in the inventory's order.

    `only` has the beginnings of the names of the sections to ask; without it all are. `deep` also
    reads whole files, to compare their checksums; `data` has values in place of the
    inventory's, as pyinfra's --data. `meanwhile` is work of this machine in short parts, done one
    by one while the nodes answer. `waiting` is called with the names of the nodes that have not
    answered, at the beginning and after each answer. `then` is given all hosts with their answers,
    whose sessions are still open, and returns the answers; of many nodes the sessions are closed.

    Raises PyinfraError for an unusable inventory, `NoHosts` if no host is left.
    """
    last = DEEP_LAST_SECONDS if deep else None
    return _each(
        inventory_path,
        limits,
        lambda host: probe(host, deep=deep, only=only),
        last,
        data or {},
        meanwhile,
        waiting,
        then,
    )


def ask_each(
    inventory_path: str, limits: Iterable[str], sections: Sequence[Section]
) -> dict[str, Readings | str]:
    """Ask the nodes of an inventory file some `sections`, in one command for each node.

    The answer of a node is its readings, or the reason why there are none. Raises as `gather` does.
    """
    replies = _each(inventory_path, limits, lambda host: ask(host, sections))
    return {
        name: reply.state if reply.state is not None else reply.error or "no answer"
        for name, reply in replies.items()
    }


def _each(
    inventory_path: str,
    limits: Iterable[str],
    work: Callable[[Host], T],
    last: float | None = None,
    data: Mapping[str, object] | None = None,
    meanwhile: Iterable[None] = (),
    waiting: Callable[[Sequence[str]], None] = lambda names: None,
    then: Callable[[dict[Host, Answer[T]]], dict[Host, Answer[T]]] | None = None,
) -> dict[str, Answer[T]]:
    """Connect to the nodes and do `work` with each, by host name in the inventory's order."""
    with chosen(inventory_path, limits, data or {}) as (state, hosts):
        keeps = then is not None and len(hosts) <= MOST_OPEN
        patience = Patience(len(hosts), last)
        left = {host.name: None for host in hosts}

        def one(host: Host) -> Answer[T]:
            reply = _reply(state, host, work, patience, keeps)
            del left[host.name]
            waiting(tuple(left))
            return reply

        waiting(tuple(left))
        asked = state.pool.map_async(one, hosts)
        gevent.sleep()  # the connections begin
        for _ in meanwhile:
            gevent.idle()  # a connection has several turns before it waits for its node again
        replies = dict(zip(hosts, asked.get(), strict=True))
        try:
            replies = then(replies) if then else replies
        finally:
            for host in hosts if keeps else ():
                close(host.connector)
    return {host.name: reply for host, reply in replies.items()}


@contextmanager
def chosen(
    inventory_path: str, limits: Iterable[str] = (), data: Mapping[str, object] | None = None
) -> Iterator[tuple[State, list[Host]]]:
    """Yield pyinfra's state and the hosts of an inventory file that `limits` leave, not connected.

    Raises PyinfraError for an unusable inventory, `NoHosts` if no host is left.
    """
    state = State(check_for_changes=False)
    config = Config(CONNECT_TIMEOUT=CONNECT_SECONDS, PARALLEL=PARALLEL)
    state.cwd = _here()
    with ctx_state.use(state), ctx_config.use(config):
        inventory = _inventory(inventory_path, state.cwd, data or {})
        with ctx_inventory.use(inventory):
            try:
                state.init(inventory, config)
            except ConnectorDataTypeError as error:
                lines = bad_logins(pyinfra_file(inventory_path), inventory)
                raise PyinfraError("\n".join(lines) or str(error)) from error
            hosts = _limited(list(inventory), list(limits), inventory_path)
            state.set_stage(StateStage.Prepare)
            yield state, hosts


def host_data(inventory_path: str, name: str) -> dict[str, Any]:
    """Return an inventory's data about one host, without contacting it; raises NoHosts."""
    hosts = limited_data(inventory_path, ())
    if name not in hosts:
        close = get_close_matches(name, list(hosts), n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        raise NoHosts(
            f"NODE: found {name!r} (no host of {inventory_path}{hint}); allowed: {', '.join(hosts)}"
        )
    return hosts[name]


def all_data(inventory_path: str) -> dict[str, dict[str, Any]]:
    """Return an inventory's data about every host, by name, without contacting one."""
    cwd = _here()
    with ctx_state.use(State(check_for_changes=False)), ctx_config.use(Config()):
        return {host.name: host.data.dict() for host in _inventory(inventory_path, cwd)}


def named_groups(inventory_path: str) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Return an inventory's data about every host, and the host's groups; contacts none.

    pyinfra puts all hosts into a group of the file's name as well. What `VERIFIED` overrides is as
    the inventory has it. Raises PyinfraError also for groups that pyinfra takes for others.
    """
    file = pyinfra_file(inventory_path)
    with chosen(inventory_path) as (_, hosts):
        if file.endswith(SUFFIX) and (lines := list(misread_groups(file))):
            raise PyinfraError("\n".join(lines))
        return {
            host.name: ({**host.data.dict(), **_own(host)}, list(host.groups)) for host in hosts
        }


def _own(host: Host) -> dict[str, Any]:
    """Return what the inventory says of the keys of `VERIFIED`; a host beats its groups."""
    known = host.inventory
    groups = known.get_groups_data(host.groups)
    own = {**known.get_data(), **groups, **known.get_host_data(host.name)}
    return {key: own[key] for key in VERIFIED.keys() & own}


def limited_data(inventory_path: str, limits: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return an inventory's data about the hosts that `limits` leave; raises as `gather` does."""
    with chosen(inventory_path, limits) as (_, hosts):
        return {host.name: host.data.dict() for host in hosts}


def _here() -> str:
    """Return the working directory: as with pyinfra, an inventory file can import from it."""
    cwd = os.getcwd()
    if cwd not in sys.path:
        sys.path.append(cwd)
    return cwd


def _inventory(path: str, cwd: str, data: Mapping[str, object] | None = None) -> Inventory:
    """Load an inventory as pyinfra does; every error of its file is a PyinfraError."""
    try:
        file, group_data = loadable(path)
        inventory: Inventory = make_inventory(
            file,
            override_data={**(data or {}), **VERIFIED, INVENTORY_DATA: path},
            cwd=cwd,
            group_data_directories=group_data,
        )
        if not all(isinstance(data, dict) for data in inventory.group_data.values()):
            raise ValueError("data that is no mapping")
        if lines := list(starting(pyinfra_file(path), inventory)):
            raise PyinfraError("\n".join(lines))
        _connect_as_ours(inventory)
        return inventory
    except PyinfraError:  # an error in a cluster file has that file and its line
        raise
    except UnexpectedExternalError as error:
        raise PyinfraError(_failed(pyinfra_file(path), error.exception)) from error
    except SystemExit as error:
        why = f"found sys.exit({error.code!r}) (it ends every command); allowed: no exit"
        raise PyinfraError(f"{pyinfra_file(path)}: {why}") from error
    except (SyntaxError, ValueError, OSError) as error:
        raise PyinfraError(_failed(pyinfra_file(path), error)) from error


def _connect_as_ours(inventory: Inventory) -> None:
    """Have the hosts that pyinfra would reach by its own SSH reached as those of a cluster file."""
    hosts = [host for host in inventory if host.connector_cls is SSHConnector]
    if hosts:
        connector = get_execution_connector(CONNECTOR)
        for host in hosts:
            host.connector_cls = connector


def _failed(path: str, error: Exception) -> str:
    """Return the problem of an inventory file that does not run, with the line where it ends."""
    words = error.msg if isinstance(error, SyntaxError) else str(error)
    is_of_data = type(error) is ValueError and not _line_in(path, error) and os.path.isfile(path)
    if lines := list(not_mappings(path) if is_of_data else ()):
        return "\n".join(lines)
    line = error.lineno if isinstance(error, SyntaxError) else _line_in(path, error)
    place = f"{path}:{line}" if line else path
    text = " ".join(f"{type(error).__name__}: {words}".split())
    allowed = "an inventory that Python can run"
    return f"{place}: found {text}; allowed: {allowed}; next: mend it, if it is your inventory"


def _line_in(path: str, error: Exception) -> int | None:
    """Return the line of a file at which it raised an error; None where it is not in the trace."""
    file = os.path.abspath(path)
    frames = extract_tb(error.__traceback__)
    return next((frame.lineno for frame in frames if os.path.abspath(frame.filename) == file), None)


def _no_host(path: str) -> NoHosts:
    if path.endswith(SUFFIX) and os.path.isfile(path) and (lines := list(not_groups(path))):
        return NoHosts("\n".join(lines))
    if os.path.exists(path) or "," in path:
        then = '; next: name a list for each group, such as a100 = ["10.0.0.4"]'
        allowed = f"one host or more{then * path.endswith('.py')}"
        return NoHosts(f"{path}: found no host; allowed: {allowed}")
    why = f"{NO_INVENTORY}, and no host of that name"
    return NoHosts(
        f"INVENTORY: found {path!r} ({why}); allowed: {INVENTORIES}; next: ls *.yml */*.yml"
    )


def _limited(hosts: list[Host], limits: list[str], inventory_path: str) -> list[Host]:
    """Return the hosts that a group name or a pattern on the host name selects, as pyinfra does."""
    if not hosts:
        raise _no_host(inventory_path)
    for limit in limits:
        if not any(_selects(limit, host) for host in hosts):
            names = sorted({host.name for host in hosts})
            groups = sorted({group for host in hosts for group in host.groups})
            raise NoHosts(
                f"--limit: found {limit!r} (matches no host of {inventory_path}); allowed: "
                f"{', '.join([*groups, *names])}, or a pattern with * or ?"
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


def _reply(
    state: State, host: Host, work: Callable[[Host], T], patience: Patience, keeps: bool
) -> Answer[T]:
    """Connect to one node and ask it, and close the session unless this `keeps` it.

    No exception leaves this function.
    """
    data = host.data.dict()
    with ctx_host.use(host):
        reached = False
        try:
            with patience.asking(host):
                connect(state, host)
                reached = True
                return Answer(data, work(host), reached=True)
        except NotConnected as error:
            return Answer(data, error=str(error), cause=error.cause)
        except (ProbeError, GivenUp) as error:
            return Answer(data, error=str(error), reached=reached)
        except Exception as error:  # an error of one node must not end the others
            return Answer(data, error=f"not understood: {in_words(error)}", reached=True)
        finally:
            # It may be given up in the moment of its answer.
            with suppress(GivenUp):
                if not keeps:
                    close(host.connector)
