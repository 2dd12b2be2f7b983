"""Runs rsync on the controller or on a node, and reads its output, within limits."""

import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from paramiko import SSHException
from pyinfra.api import Host, State

from gpu_node.facts.probe.request import request_of
from gpu_node.facts.probe.training_user import as_training_user
from gpu_node.inventories.connection.capped import TooMuch, begun
from gpu_node.inventories.connection.sudo import SUDO

# Progress has no newline at its end: an error is printed after it, on the same line.
_PROGRESS = re.compile(
    r"\s*(\d[\d,.]{0,30})\s+\d+%\s+\S+/s\s+[\d:?]+(?:\s+\(xfe?r#[^)]*\))?(.*)",
    re.DOTALL | re.ASCII,
)
# The connection on which rsync runs broke.
BROKEN = -1
# How long each side waits for a byte of the other one, and a node for a short answer.
IDLE_SECONDS, BEGIN_SECONDS = 600, 60
# A slower copy is stopped; the next run sends the rest.
_BYTES_A_SECOND, _AT_LEAST_SECONDS, _GRACE_SECONDS = 250_000, 7200, 60
# The part of rsync's output that is kept: the number of messages, and the characters of each.
_MOST, _LONGEST = 200, 2000
_LINE_BYTES = 1 << 16


@dataclass
class Outcome:
    """How an rsync ended: its code, its messages, and whether it has sent anything."""

    code: int = BROKEN
    messages: list[str] = field(default_factory=list)
    has_sent: bool = False

    def add(self, message: str) -> None:
        """Keep a message; of very many messages, the first ones and the last."""
        if message:
            del self.messages[_MOST:]
            self.messages.append(message[:_LONGEST])


def seconds_for(total: int) -> float:
    """Return how long a copy of so many bytes may take."""
    return _AT_LEAST_SECONDS + min(total, 1 << 50) / _BYTES_A_SECOND


def another_user(host: Host) -> str:
    """Return the training user of a host if that is not the SSH user; else nothing.

    The keys with which nodes log in to each other belong to that user.
    """
    data = host.data.dict()
    user = request_of(data).user
    return "" if user == (data.get("ssh_user") or "") else user


def follow(lines: Iterable[str | int], advance: Callable[[int], object], ended: Outcome) -> None:
    """Pass rsync's progress on, and collect its other output; its code comes last."""
    for line in lines:
        if isinstance(line, int):
            ended.code = line
            break
        progress = _PROGRESS.match(line)
        if progress:
            sent = int(re.sub("[^0-9]", "", progress[1]))
            ended.has_sent = ended.has_sent or sent > 0
            advance(sent)
        ended.add((progress[2] if progress else line).strip())


def answer(state: State, source: str, argv: list[str]) -> list[str]:
    """Return the lines that a command on a node prints; raises OSError if it fails."""
    ended = Outcome()
    try:
        follow(on_node(state, source, argv, IDLE_SECONDS), lambda _: None, ended)
    except (SSHException, EOFError) as error:
        raise OSError(str(error) or type(error).__name__) from error
    if ended.code != 0:
        raise OSError(
            ended.messages[-1] if ended.messages else f"{argv[0]} ended with {ended.code}"
        )
    return ended.messages


def locally(argv: list[str], seconds: float) -> Iterator[str | int]:
    """Run rsync on the controller; its lines, then its code. It ends when the reader stops."""
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"},
        bufsize=0,
    ) as process:
        timer = threading.Timer(seconds + _GRACE_SECONDS, process.terminate)
        timer.start()
        try:
            stdout = process.stdout
            assert stdout is not None
            yield from _lines(lambda: stdout.read(_LINE_BYTES), seconds)
            yield process.wait()
        finally:
            timer.cancel()
            process.terminate()


def _lines(receive: Callable[[], bytes], seconds: float) -> Iterator[str]:
    """Yield the lines that a program prints; a carriage return also ends a line."""
    end = time.monotonic() + seconds
    rest = b""
    while data := receive():
        *lines, rest = re.split(rb"[\r\n]", rest + data)
        yield from (line.decode("utf-8", "replace") for line in lines)
        if len(rest) > _LINE_BYTES:
            raise TooMuch(f"{_LINE_BYTES >> 10} KiB without an end of line")
        if time.monotonic() > end:
            raise TimeoutError(f"it did not end within {seconds:.0f} s")
    yield rest.decode("utf-8", "replace")


def as_trainer(user: str, argv: Sequence[str]) -> str:
    """Return the command that runs `argv` as the training user, if that is `another_user`."""
    words = f"LC_ALL=C {shlex.join(argv)}"
    if not user:
        return words
    # The other user may have no access to the SSH user's home.
    script = f"cd /\n{as_training_user(user, words)}"
    return f"sh -c {shlex.quote(script)}"


def on_node(state: State, source: str, argv: list[str], seconds: float) -> Iterator[str | int]:
    """Run rsync on the source, as the training user there, over the open connection."""
    host = state.inventory.get_host(source)
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client else None
    if transport is None:
        raise OSError(f"{source} is not connected")
    user = another_user(host)
    if user and SUDO.asks(source):
        raise OSError(
            f"{user} sends it, and rsync cannot give sudo a password: allow it without one "
            f"on {source} (NOPASSWD), or log in there as {user} or root"
        )
    with begun(transport, as_trainer(user, argv), BEGIN_SECONDS) as channel:
        channel.set_combine_stderr(True)
        # rsync itself stops a little earlier.
        channel.settimeout(IDLE_SECONDS + BEGIN_SECONDS)
        yield from _lines(lambda: channel.recv(_LINE_BYTES), seconds)
        if not channel.status_event.wait(BEGIN_SECONDS):
            raise TimeoutError(f"{argv[0]} ended without an exit code")
        yield int(channel.recv_exit_status())
