"""Hostile nodes in the place of an honest one, and the cost of a run beside them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from paramiko import Channel

from gpu_node.facts.probe.frame import MARK
from tests.commands import REPOSITORY, environment

# The most that one hostile node may cost a run, and the controller.
MOST_SECONDS, MOST_KIB = 60, 300_000
Reply = Callable[[Channel, bytes], None]
# The nodes are greenlets of this process, in which gevent waits for its children.
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
# A section that this machine, beside other tests, did not answer in its time.
_LATE = re.compile(rb"\n@@gpu-node begin \S+ (?:124|137) ")
_SECTION = re.compile(rb"(\n@@gpu-node begin \S+ 0 raw )(\d+)\n")


class Honest:
    """Answers like this machine; the answer to each command is kept."""

    def __init__(self) -> None:
        self._answers: dict[tuple[bytes, bytes], tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def answer(self, channel: Channel, command: bytes) -> tuple[bytes, int]:
        """Return the answer to a command, and its exit code; only probes are run."""
        if MARK.encode() not in command:
            return b"", 1
        with channel.makefile("rb") as sent:
            asked = command, sent.read()
        with self._lock:
            if asked not in self._answers:
                self._answers[asked] = _answer_in_time(command.decode(), asked[1])
            return self._answers[asked]

    def __call__(self, channel: Channel, command: bytes) -> None:
        reply(channel, *self.answer(channel, command))


def _answer_in_time(command: str, sent: bytes) -> tuple[bytes, int]:
    """Return what a probe prints of which no section was late."""
    for _ in range(5):
        done = subprocess.run(["sh", "-c", command], input=sent, capture_output=True)
        if not (late := _LATE.findall(done.stdout)):
            return done.stdout, done.returncode
    raise AssertionError(f"this machine is too slow for an honest answer: {late}")


def reply(channel: Channel, data: bytes, code: int = 0) -> None:
    """Answer and end."""
    channel.sendall(data)
    channel.send_exit_status(code)
    channel.close()


def lying(honest: Honest, change: Callable[[bytes], bytes]) -> Reply:
    """Answer as a healthy node does, with each section's text changed."""

    def answer(channel: Channel, command: bytes) -> None:
        data, position, parts = honest.answer(channel, command)[0], 0, []
        while match := _SECTION.search(data, position):
            length = int(match[2])
            text = change(data[match.end() : match.end() + length])
            parts += [data[position : match.end(1)], str(len(text)).encode(), b"\n", text]
            position = match.end() + length
        reply(channel, b"".join([*parts, data[position:]]))

    return answer


def endless(channel: Channel, _: bytes) -> None:
    """Send endlessly."""
    while True:
        channel.sendall(b"x" * 32768)


def garbage(channel: Channel, _: bytes) -> None:
    """Send bytes, and markers among them."""
    marks = f"\n{MARK} begin shm.mount 0 raw 2000000\n{MARK} end".encode()
    reply(channel, (os.urandom(1000) + marks) * 3000)


def silent(channel: Channel, _: bytes) -> None:
    """Stay connected and silent."""
    time.sleep(100)


PATTERN = b"((((.+)+)+)+)+Q"
LIES: dict[str, Callable[[bytes], bytes]] = {
    "old timestamps": lambda text: re.sub(rb"\d+", b"-99999999999999", text),
    "large numbers": lambda text: re.sub(rb"\d+", b"9" * 5000, text)[:500_000],
    "patterns": lambda text: re.sub(rb"[A-Za-z]+", PATTERN, text),
    "links": lambda text: re.sub(rb"/\S*", b"/etc/shadow", text),
    "many": lambda text: (text + b"\n") * min(2000, 400_000 // (len(text) + 1)),
    # Below the limits of bytes and lines.
    "as many as are taken": lambda text: (text + b"\n") * min(9000, 290_000 // (len(text) + 1)),
    "escapes": lambda text: re.sub(rb" ", b"\t", text),
}


def measured(*words: object) -> tuple[subprocess.CompletedProcess[str], float, int]:
    """Run a command; return its end, the seconds it took, and the memory in KiB."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, words)],
        cwd=REPOSITORY,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return done, time.monotonic() - began, int(done.stderr.split()[-1])
