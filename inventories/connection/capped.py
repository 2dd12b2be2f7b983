"""Commands on a node over SSH, with limits on the bytes, lines and seconds of their answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from paramiko import Channel, SSHException, Transport

from gpu_node.inventories.connection.transport import Unlawful, within

# Enough for a list of 400,000 files, compressed.
MOST_BYTES = 16 * 1024 * 1024
MOST_LINES = 500_000
# For a command that has no limit: more than a step of a deploy takes.
LONGEST_SECONDS = 4 * 3600
_CHUNK = 32768
# How often it is looked whether a command has ended, or takes more of its input.
_PAUSE = 0.1
_GRACE_SECONDS = 5


class TooMuch(SSHException, OverflowError):
    """A node that sends more than is read from it; str() is fit for a report."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"sent more than {what} in answer to one command; the rest was not read; check what "
            "the login shell and the programs there print"
        )


@dataclass
class Answer:
    """What a command printed, in parts of stdout and stderr as they came, and its exit code."""

    code: int = -1
    parts: list[tuple[str, bytes]] = field(default_factory=list)
    size: int = 0
    lines: int = 0

    def add(self, stream: str, data: bytes) -> None:
        """Add what came; raises TooMuch."""
        self.size += len(data)
        self.lines += data.count(b"\n")
        if self.size > MOST_BYTES:
            raise TooMuch(f"{MOST_BYTES // 1024 // 1024} MiB")
        if self.lines > MOST_LINES:
            raise TooMuch(f"{MOST_LINES} lines")
        self.parts.append((stream, data))

    def of(self, stream: str) -> bytes:
        """Return all that came on a stream."""
        return b"".join(data for name, data in self.parts if name == stream)


class Talk(Protocol):
    """A stdin that is written while its command runs."""

    def more(self) -> bytes | None:
        """Return what to send now; None ends the stdin."""

    def hear(self, stream: str, data: bytes) -> None:
        """Take a part of what the command prints."""


def run(
    transport: Transport,
    command: str,
    seconds: float,
    stdin: bytes = b"",
    terminal: bool = False,
    show: Callable[[str, bytes], None] = lambda stream, data: None,
    more: Callable[[], bytes | None] = lambda: None,
) -> Answer:
    """Run a command and return its answer; `show` is given each part of it.

    After `stdin` it is sent what `more` returns, until that is None.

    Raises TooMuch, TimeoutError where it does not end in time, and what paramiko raises where the
    connection breaks.
    """
    end = time.monotonic() + seconds
    answer = Answer()
    # The second limit is for what waits in paramiko: a node need not take what is sent to it.
    whole = within(transport, seconds + _GRACE_SECONDS)
    with whole, begun(transport, command, seconds, terminal) as channel:
        for stream, data in _heard(channel, stdin, more, end, seconds):
            answer.add(stream, data)
            show(stream, data)
        answer.code = channel.recv_exit_status()
    if answer.code < 0 and isinstance(error := transport.saved_exception, Unlawful):
        raise error
    return answer


@contextmanager
def begun(
    transport: Transport, command: str, seconds: float, terminal: bool = False
) -> Iterator[Channel]:
    """Yield the channel of a command that was begun within some seconds, and close it."""
    with within(transport, seconds + _GRACE_SECONDS):
        channel = transport.open_session(timeout=seconds)
        channel.settimeout(seconds)
        if terminal:
            channel.get_pty()
        channel.exec_command(command)
    try:
        yield channel
    finally:
        # A node that does not read any more would hold this up as well.
        with suppress(Exception), within(transport, _GRACE_SECONDS):
            channel.close()


def _heard(
    channel: Channel, stdin: bytes, more: Callable[[], bytes | None], end: float, seconds: float
) -> Iterator[tuple[str, bytes]]:
    """Send `stdin` and `more`, and yield what comes back until the end; raises TimeoutError."""
    news = threading.Event()
    for buffer in (channel.in_buffer, channel.in_stderr_buffer):
        buffer.set_event(news)
    is_sent = False
    while True:
        news.clear()
        # Asked first: what came before the end is read after that.
        ended = channel.exit_status_ready() and (channel.eof_received or channel.closed)
        moved = False
        for part in _ready(channel):
            moved = True
            yield part
        if stdin and not channel.closed and channel.send_ready():
            stdin = stdin[channel.send(stdin[:_CHUNK]) :]
            moved = True
        if not stdin and not is_sent and not channel.closed:
            if (following := more()) is None:
                channel.shutdown_write()
                is_sent = True
            stdin = following or b""
        if ended and not moved:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"no end within {seconds:.0f} s")
        if not moved:
            news.wait(_PAUSE)


def _ready(channel: Channel) -> Iterator[tuple[str, bytes]]:
    """Yield what one look finds on each stream."""
    if channel.recv_ready():
        yield "stdout", channel.recv(_CHUNK)
    if channel.recv_stderr_ready():
        yield "stderr", channel.recv_stderr(_CHUNK)
