"""Sessions with a node: the probe over the one that is open, and a second, fresh one beside it."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gevent import get_hub
from paramiko import Transport
from pyinfra.api import Host, StringCommand
from pyinfra.api.exceptions import FactProcessError
from pyinfra.connectors.base import BaseConnector

from facts.controller import with_source
from facts.named import named_by
from facts.node import NodeProbe, NodeState
from facts.probe import MARK, Readings, Section, read, render, time_limit

# What ends a login shell's answer before ours begins: an exit, or bytes pyinfra cannot read.
SILENT = "the login shell ended before it (does ~/.bashrc exit, or print what is not UTF-8?)"


# How soon a connection breaks whose other end is gone: an idle one, and one that sends.
GONE_SECONDS = 25
_GONE = {
    "TCP_KEEPIDLE": 10,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": GONE_SECONDS * 1000,
}


class ProbeError(Exception):
    """The node is there, and its answer to the probe is of no use; str() is the reason."""


def probe(host: Host, connector: BaseConnector | None = None, deep: bool = False) -> NodeState:
    """Ask a connected host everything, in one exec; `deep` reads what takes a while, too.

    It is asked as the SSH user: limits and PATH are those that jobs get. What only root can read is
    asked by one sudo in it, where the inventory allows that. pyinfra's own get_fact would hide why
    a fact failed. Raises ProbeError.
    """
    fact = NodeProbe()
    named = named_by(host.data.dict(), deep)
    script = fact.asking(named)
    lines = _answered(connector or host.connector, script, time_limit(fact.asked))
    try:
        found = NodeState.model_validate(fact.process(lines))
        return with_source(found, named.workspace)
    except FactProcessError as error:
        raise ProbeError(str(error)) from error


def ask(
    host: Host, sections: Sequence[Section], connector: BaseConnector | None = None
) -> Readings:
    """Ask a connected host some sections, in one exec, as the SSH user. Raises ProbeError."""
    by = connector or host.connector
    return read(_answered(by, render(sections), time_limit(sections)), sections)


def _answered(connector: BaseConnector, script: str, seconds: int) -> list[str]:
    """Return the lines that a probe's script says. Raises ProbeError."""
    _expect_any_bytes()
    try:
        status, output = connector.run_shell_command(
            StringCommand(script), False, False, _timeout=seconds
        )
    except TimeoutError:
        raise ProbeError(f"no answer to the probe within {seconds} s") from None
    except Exception as error:  # the transport broke: paramiko and socket errors of many classes
        raise ProbeError(f"the connection broke: {str(error) or type(error).__name__}") from error
    if not any(line.startswith(MARK) for line in output.stdout_lines):
        said = [line for line in (*output.stdout_lines, *output.stderr_lines) if line.strip()]
        last = f"; the last it said: {said[-1]}" if said else ""
        raise ProbeError(f"the probe could not run: {SILENT}{last}")
    if not status:
        raise ProbeError("the probe was cut off before its end; ask again")
    lines: list[str] = output.stdout_lines
    return lines


def _expect_any_bytes() -> None:
    """Keep gevent from printing a traceback where a node says what is not UTF-8.

    The greenlet of pyinfra's that reads dies of it; that the answer lacks its end is told all the
    same. The resolver has a tuple of the hub's own made, so the class is the wrong place.
    """
    hub = get_hub()
    if UnicodeDecodeError not in hub.NOT_ERROR:
        hub.NOT_ERROR = (*hub.NOT_ERROR, UnicodeDecodeError)


@contextmanager
def fresh(host: Host) -> Iterator[BaseConnector]:
    """Open a second connection to a host beside the one that is open, and close it again.

    Raises pyinfra's ConnectError when no new session can be had.
    """
    connector = type(host.connector)(host.state, host)
    connector.connect()
    try:
        tune(connector)
        yield connector
    finally:
        close(connector)


def tune(connector: BaseConnector) -> None:
    """Send small packets at once (paramiko leaves Nagle on, about 40 ms a round trip).

    And notice within `GONE_SECONDS` that a node went away without a word, see tcp(7).
    """
    transport = _transport(connector)
    sock = transport.sock if transport else None
    if not isinstance(sock, socket.socket):  # behind a jump host it is a channel
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _GONE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_open(connector: BaseConnector) -> bool:
    """Whether the connection still stands; one that is not SSH always does."""
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
