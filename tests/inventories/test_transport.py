"""A node that sends without end, garbage, a byte a second or nothing: each command on it ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from paramiko import Channel, Message, SSHException
from paramiko.common import cMSG_CHANNEL_DATA

from gpu_node.inventories.connection import capped
from gpu_node.inventories.connection.transport import BoundedTransport
from tests.inventories.conftest import MINE, ask
from tests.onboarding.serving import Sshd


def endless(data: bytes, stderr: bool = False) -> Callable[[Channel, bytes], None]:
    """Send the same for ever."""

    def answer(channel: Channel, _: bytes) -> None:
        send = channel.sendall_stderr if stderr else channel.sendall
        while True:
            send(data)

    return answer


def connection(sshd: Sshd) -> BoundedTransport:
    """A connection to it, logged in."""
    made = BoundedTransport(socket.create_connection(("127.0.0.1", sshd.port)))
    made.start_client(timeout=10)
    made.auth_publickey("root", MINE)
    return made


@pytest.mark.parametrize(
    ("data", "stderr"), [(b"\xff\0" * 16384, False), (b"x\n" * 16384, True)], ids=["line", "lines"]
)
def test_output_without_end(sshd: Sshd, data: bytes, stderr: bool) -> None:
    """It is read up to a limit."""
    sshd.answer = endless(data, stderr)
    began = time.monotonic()
    error = ask(sshd)
    assert error.startswith("sent more than ")
    assert "in answer to one command" in error
    assert time.monotonic() - began < 15


def test_it_works_after_too_much(sshd: Sshd) -> None:
    """The channel alone is closed."""
    with closing(connection(sshd)) as open_one:
        sshd.answer = endless(b"x" * 32768)
        with pytest.raises(capped.TooMuch):
            capped.run(open_one, "x", 10)
        sshd.answer = None
        assert capped.run(open_one, "echo here; exit 3", 10).of("stdout") == b"here\n"


def dripping(channel: Channel, _: bytes) -> None:
    """Send a byte at a time."""
    while True:
        channel.sendall(b"x")
        time.sleep(0.05)


def silent(channel: Channel, _: bytes) -> None:
    """Say nothing and stay."""
    time.sleep(20)


def without_a_status(channel: Channel, _: bytes) -> None:
    """End the output and neither tell how, nor close the channel."""
    channel.shutdown_write()
    time.sleep(20)


def never_closed(channel: Channel, _: bytes) -> None:
    """Tell how it ended, and keep the output open."""
    channel.send_exit_status(0)
    time.sleep(20)


@pytest.mark.parametrize("answer", [dripping, silent, without_a_status, never_closed])
def test_what_does_not_end(sshd: Sshd, answer: Callable[[Channel, bytes], None]) -> None:
    """Its seconds are over at some time."""
    sshd.answer = answer
    with closing(connection(sshd)) as open_one, pytest.raises(TimeoutError):
        capped.run(open_one, "x", 0.4)


def test_input_that_is_not_read(sshd: Sshd) -> None:
    """The node's window never opens again."""
    sshd.answer = silent
    with closing(connection(sshd)) as open_one, pytest.raises(TimeoutError):
        capped.run(open_one, "x", 0.4, stdin=b"x" * 2**23)


def test_a_window_that_is_ignored(sshd: Sshd) -> None:
    """A peer that sends more than was requested is cut off before its data is read."""

    def flood(channel: Channel, _: bytes) -> None:
        while True:
            message = Message()
            message.add_byte(cMSG_CHANNEL_DATA)
            message.add_int(channel.remote_chanid)
            message.add_string(b"x" * 32768)
            channel.get_transport()._send_user_message(message)  # type: ignore[attr-defined]

    sshd.answer = flood
    with closing(connection(sshd)) as open_one, capped.begun(open_one, "x", 10):
        open_one.join(10)
        assert not open_one.is_active()
        assert "its SSH window" in str(open_one.saved_exception)


@pytest.mark.parametrize(
    "sent",
    [b"x" * 128, b"x\r\n" * 40, b"SSH-2.0-x\r\n\x7f\xff\xff\xff", b"\0" * 128],
    ids=["banner", "lines", "packet", "NUL"],
)
def test_a_first_contact_without_end(sshd: Sshd, sent: bytes) -> None:
    """Lines before the version of SSH, and a packet of 2 GiB."""
    heard = threading.Event()

    def instead(connection: socket.socket) -> None:
        def send() -> None:
            with closing(connection):
                connection.sendall(sent)
                while True:
                    connection.sendall(sent[-128:] if sent[-1:] != b"\xff" else b"x" * 128)

        def thread() -> None:
            try:
                send()
            except OSError:
                heard.set()

        threading.Thread(target=thread, daemon=True).start()

    sshd.instead = instead
    began = time.monotonic()
    with pytest.raises(SSHException):
        made = BoundedTransport(socket.create_connection(("127.0.0.1", sshd.port)))
        made.start_client(timeout=20)
    assert time.monotonic() - began < 5
    assert heard.wait(5), "the connection was not closed"


def test_no_compression(sshd: Sshd) -> None:
    """Whatever an inventory says: some bytes could become any number."""
    made = BoundedTransport(socket.create_connection(("127.0.0.1", sshd.port)))
    with closing(made):
        made.use_compression(True)
        made.start_client(timeout=10)
        assert vars(made)["remote_compression"] == "none"
