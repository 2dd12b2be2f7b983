"""Limits on an SSH connection: packets, banner, window, and how long it may take to come about."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar

from paramiko import Channel, Message, SSHException, Transport
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA
from paramiko.packet import Packetizer
from typing_extensions import override

# The largest packet that OpenSSH accepts; sshd is asked for packets of 32 KiB.
MOST_OF_A_PACKET = 256 * 1024
# All that may come before and in the line with the version of SSH.
MOST_OF_A_BANNER = 64 * 1024
BANNER_SECONDS = 60
# TCP, key exchange and logging in together: a busy sshd may take 60 s to ask PAM.
CONNECT_SECONDS = 90
# Of so many reads from a socket one lets the other greenlets work.
_READS = 32


class Unlawful(SSHException):
    """A node that breaks a limit of its connection, which ends; str() is fit for a report."""


class Bounded(Packetizer):
    """Reads packets that are not longer than SSH allows; `heard` is when the last one came."""

    def __init__(self, socket: socket.socket) -> None:
        super().__init__(socket)
        self.heard = time.monotonic()
        self._reads = 0
        self._banner_bytes = 0
        self._banner_end: float | None = None

    @override
    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > MOST_OF_A_PACKET:
            raise Unlawful(f"it sent an SSH packet of {n} bytes")
        self._reads += 1
        if self._reads % _READS == 0:
            time.sleep(0)  # a node that sends without end would have the thread to itself
        data: bytes = super().read_all(n, check_rekey)
        self.heard = time.monotonic()
        return data

    def _read_timeout(self, timeout: float) -> bytes:
        """Read a part of the lines before the first packet."""
        now = time.monotonic()
        self._banner_end = self._banner_end or now + max(timeout, BANNER_SECONDS)
        if self._banner_bytes > MOST_OF_A_BANNER or now > self._banner_end:
            raise SSHException(": no version of SSH in the first lines")
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._banner_bytes += len(data)
        return data


def _fed(channel: Channel, message: Message) -> None:
    """Take data of a channel; a node that ignores its window is cut off."""
    channel._feed(message)  # type: ignore[attr-defined]
    _require_window(channel)


def _fed_extended(channel: Channel, message: Message) -> None:
    channel._feed_extended(message)  # type: ignore[attr-defined]
    _require_window(channel)


def _require_window(channel: Channel) -> None:
    held = len(channel.in_buffer) + len(channel.in_stderr_buffer)
    if held > channel.in_window_size:
        raise Unlawful("it sent more than its SSH window allows")


class BoundedTransport(Transport):
    """A connection with the limits; nothing is compressed: a few bytes could become any number."""

    _channel_handler_table: ClassVar[dict[int, Any]] = {
        **Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_DATA: _fed,
        MSG_CHANNEL_EXTENDED_DATA: _fed_extended,
    }

    def __init__(self, sock: Any, **options: Any) -> None:
        super().__init__(sock, **{**options, "packetizer_class": Bounded})

    @override
    def use_compression(self, compress: bool = True) -> None:
        """Leave it off, whatever the inventory says."""


def cut(transport: Transport) -> None:
    """End a connection without a word to its other end, which may not read any more."""
    transport.active = False
    transport.packetizer.close()


def within(transport: Transport, seconds: float) -> AbstractContextManager[None]:
    """Cut a connection if the work with it takes longer; raises TimeoutError then."""
    return ended_after(seconds, partial(cut, transport), "end")


@contextmanager
def ended_after(seconds: float, end: Callable[[], object], awaited: str) -> Iterator[None]:
    """Call `end` if the work takes longer: what waits in it must end with an error then.

    Raises TimeoutError in place of that error; it names what was `awaited`.
    """
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        end()

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if expired.is_set():
            raise TimeoutError(f"no {awaited} within {seconds:.0f} s") from error
        raise
    finally:
        timer.cancel()
