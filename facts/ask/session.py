"""Sessions with a node: the probe over the open session, and a second session beside it."""

from __future__ import annotations

import re
import shlex
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from paramiko import Transport
from pyinfra.api import Host
from pyinfra.connectors.base import BaseConnector

from gpu_node.facts.ask.execute import NoAnswer, NoAnswerInTime, execute
from gpu_node.facts.ask.waiting import too_late
from gpu_node.facts.probe.bounds import not_understood, short
from gpu_node.facts.probe.frame import FIRST_LINE, READER, arrived_in_part, by_stdin
from gpu_node.facts.probe.protocol import MARK, Readings, Section, Times, read, render, time_limit
from gpu_node.facts.probe.request import ProbeRequest, request_of

if TYPE_CHECKING:  # the areas are imported while the connections open, see gather
    from gpu_node.facts.node import NodeProbe, NodeState

T = TypeVar("T")
# As bash reports what is wrong in a file that it reads.
_IN_A_FILE = re.compile(r"(?:\S+: )?(/.+): line [0-9]+: ")
_LOOK = (
    "on its console, see which shell the account has (getent passwd USER: nologin and false run no "
    "command), and whether ~/.bashrc exits"
)
EATEN = (
    "a start file of the login shell read its stdin; next: add </dev/null to the commands of "
    "~/.bashrc that read stdin, such as ssh, read or cat"
)
CUT = "the connection or the node lost the end of its script; next: run this again"


# Seconds until a connection to a node that is gone breaks: if it is idle, and if it sends.
GONE_SECONDS = 25
_GONE = {
    "TCP_KEEPIDLE": 10,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": GONE_SECONDS * 1000,
}


class ProbeError(Exception):
    """The node is reachable, but its answer to the probe is unusable; str() is the reason."""


class NotWhole(ProbeError):
    """The script did not arrive whole, and did not run."""

    def __init__(self, count: str, first: str) -> None:
        why = CUT if first.startswith(FIRST_LINE) else EATEN
        arrived = f"{count} bytes of its script arrived, from {first[:40]!a} on"
        super().__init__(f"the probe could not run: {why} ({arrived if first else 'none arrived'})")


def probe(
    host: Host,
    connector: BaseConnector | None = None,
    deep: bool = False,
    only: tuple[str, ...] = (),
) -> NodeState:
    """Ask a connected host everything, in one command; `deep` also reads whole libraries.

    With `only`, beginnings of the names of sections, those alone.

    The probe runs as the SSH user: it has the limits and the PATH of jobs. Where the inventory
    allows it, one sudo in the probe runs the sections that need root. pyinfra's get_fact would hide
    why a fact failed. Raises ProbeError.
    """
    from gpu_node.facts.node import NodeProbe

    fact = NodeProbe()
    fact.only = only
    request = request_of(host.data.dict(), deep)
    connector = connector or host.connector
    # Of the connectors ours alone knows a password.
    fact.by = getattr(connector, "by_sudo", dict)() if request.sudo else {}
    script = fact.script_for(replace(request, asks=bool(fact.by)))
    asked = time.time()
    lines = _answered(connector, script, time_limit(fact.asked))
    fact.times = Times(asked, time.time())
    state = state_of(fact, lines, request)
    if fact.by and state.ssh.sudo_refusal:
        getattr(connector, "sudo_refuses", str)(state.ssh.sudo_refusal)
    reached = _host_key(connector)
    return state.model_copy(update={"ssh": state.ssh.model_copy(update={"reached": reached})})


def is_recent(state: NodeState, connector: BaseConnector, seconds: float) -> bool:
    """Whether a state is of the machine that a session reaches, and at most so many seconds old."""
    age = time.time() - (state.clock.asked or 0)
    return 0 <= age <= seconds and state.ssh.reached == _host_key(connector)


def _host_key(connector: BaseConnector) -> str | None:
    """Return the host key of a session, which known_hosts has: the files may have another one."""
    transport = _transport(connector)
    key = transport.get_remote_server_key() if transport else None
    return None if key is None else f"{key.get_name()} {key.get_base64()}"


def state_of(fact: NodeProbe, lines: list[str], request: ProbeRequest) -> NodeState:
    """Return the state in the lines of an answer to what `fact` asked. Raises ProbeError."""
    from gpu_node.facts.workspace.source import with_sources

    try:
        state = fact.state_in(lines)
    except Exception as error:  # an error of one parser must not end the run for the others
        raise ProbeError(not_understood(error)) from error
    return with_sources(state, request.copies)


def ask(
    host: Host, sections: Sequence[Section], connector: BaseConnector | None = None
) -> Readings:
    """Ask a connected host some sections, in one command, as the SSH user. Raises ProbeError."""
    by = connector or host.connector
    lines = _answered(by, render(sections), time_limit(sections))
    try:
        return read(lines, sections)
    except Exception as error:  # as in probe
        raise ProbeError(not_understood(error)) from error


def _answered(connector: BaseConnector, script: str, seconds: int) -> list[str]:
    """Return the lines that a probe's script prints. Raises ProbeError."""

    def once() -> list[str]:
        try:
            status, output = execute(connector, READER, seconds, stdin=by_stdin(script))
        except NoAnswerInTime:
            raise ProbeError(too_late(seconds)) from None
        except NoAnswer as error:
            raise ProbeError(str(error)) from error
        return whole(status, output.stdout_lines, output.stderr_lines)

    return asked_again(once)


def asked_again(once: Callable[[], T]) -> T:
    """Return the result of asking; a script that did not arrive whole is sent a second time."""
    try:
        return once()
    except NotWhole:
        return once()


def whole(status: bool, lines: list[str], errors: Sequence[str]) -> list[str]:
    """Return the lines of an answer if the probe ran to its end. Raises ProbeError.

    `status` is whether it ended with 0, `errors` are its lines on stderr.
    """
    if part := arrived_in_part(lines):
        raise NotWhole(*part)
    if not any(line.startswith(MARK) for line in lines):
        printed = [line for line in (*lines, *errors) if line.strip()]
        raise ProbeError(f"the probe could not run: the login shell ended first{_last(printed)}")
    if not status:
        raise ProbeError("the probe was cut off before its end; ask again")
    return lines


def _last(printed: Sequence[str]) -> str:
    """Return the last line that a login shell printed before it ended, and the next step."""
    last = short(printed[-1]) if printed else ""
    match = _IN_A_FILE.match(last)
    then = f"correct {match[1]}: bash -n {shlex.quote(match[1])}" if match else _LOOK
    return f"{f': {last}' if last else ', and printed nothing'}; next: {then}"


@contextmanager
def fresh(host: Host, user: str = "") -> Iterator[BaseConnector]:
    """Open a second connection to a host, and close it at the end.

    It logs in as the SSH user or as another `user`, without a password. Raises pyinfra's
    ConnectError if the login fails.
    """
    connector = type(host.connector)(host.state, host)
    if user:
        connector.data = {**connector.data, "ssh_user": user, "ssh_password": None}
    connector.connect()
    try:
        tune(connector)
        yield connector
    finally:
        close(connector)


def tune(connector: BaseConnector) -> None:
    """Detect within `GONE_SECONDS` that a node is gone, see tcp(7)."""
    transport = _transport(connector)
    sock = transport.sock if transport else None
    if not isinstance(sock, socket.socket):  # behind a jump host it is a channel
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _GONE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_open(connector: BaseConnector) -> bool:
    """Whether the connection is open; one that is not SSH always is."""
    transport = _transport(connector)
    return transport is None or transport.is_active()


def _transport(connector: BaseConnector) -> Transport | None:
    client = getattr(connector, "client", None)
    return client.get_transport() if client else None


def close(connector: BaseConnector) -> None:
    """Close a connection; pyinfra's own disconnect leaves the SSH client open."""
    client = getattr(connector, "client", None)
    if client is not None:
        client.close()
