"""Programs on this machine that carry the probe to nodes, side by side, each bounded.

A program gets a script on stdin. It ends with this process, however that ends; one that takes too
long or sends too much is terminated, and killed where that is not enough.
"""

import ctypes
import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, TypeVar

import gevent
from gevent import subprocess
from gevent.os import make_nonblocking, nb_read, nb_write
from gevent.pool import Pool

from gpu_node.facts.ask.offline import MOST_BYTES
from gpu_node.facts.ask.via.question import TOO_MUCH, Carried
from gpu_node.facts.ask.waiting import Waiting, too_late

# A program that is terminated has so long to end what it has started elsewhere.
GRACE_SECONDS = 10
_LOOK_SECONDS = 0.5
_CHUNK = 65536
_PR_SET_PDEATHSIG = 1


T = TypeVar("T")


@dataclass(frozen=True)
class Errand:
    """A program for one node, what it reads from stdin, its time limit and its environment."""

    name: str
    argv: Sequence[str]
    stdin: Callable[[], bytes]
    seconds: float
    environment: Mapping[str, str]


@dataclass
class _Running:
    """An errand while it runs; times are of the monotonic clock."""

    errand: Errand
    process: Any
    asked: float = field(default_factory=time.monotonic)
    heard: float | None = None
    # How much both streams may still bring.
    left: int = MOST_BYTES
    problem: str = ""

    def give_up(self, why: str) -> None:
        """End it, for a reason; the first one counts."""
        if not self.problem:
            self.problem = why
            self.process.terminate()

    def take(self, pipe: IO[bytes], kept: list[bytes]) -> None:
        """Keep what comes from a pipe, until its end or too much."""
        make_nonblocking(pipe.fileno())
        while data := nb_read(pipe.fileno(), _CHUNK):
            self.heard = time.monotonic()
            self.left -= len(data)
            if self.left >= 0:
                kept.append(data)
            else:
                self.give_up(TOO_MUCH)

    def give(self, pipe: IO[bytes], data: bytes) -> None:
        """Write all of the script; a program that has ended takes none."""
        rest = memoryview(data)
        with suppress(OSError):
            make_nonblocking(pipe.fileno())
            while rest:
                rest = rest[nb_write(pipe.fileno(), rest[:_CHUNK]) :]
        with suppress(OSError):
            pipe.close()


def with_parent(number: int = signal.SIGTERM) -> None:
    """Have this process get a signal when its parent ends, also by SIGKILL; see prctl(2)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


def run_all(
    errands: Iterable[Errand], last: float, parallel: int, judge: Callable[[Carried], T]
) -> dict[str, T]:
    """Run errands, at most `parallel` at once, and return the judgement of each by its name.

    What an errand brought is judged at once, and not kept. `last`: seconds after which one is given
    up once half of the others have ended with 0.
    """
    todo = list(errands)
    waiting, running = Waiting(len(todo), last), list[_Running]()
    watch = gevent.spawn(_watch, running, waiting)
    try:
        results = Pool(parallel).map(lambda each: judge(_run(each, running, waiting)), todo)
        return {each.name: one for each, one in zip(todo, results, strict=True)}
    finally:
        watch.kill()


def _run(errand: Errand, running: list[_Running], waiting: Waiting) -> Carried:
    asked = time.time()
    try:
        process = subprocess.Popen(
            errand.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=errand.environment,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for this process, which ends the others
            preexec_fn=with_parent,
        )
    except OSError as error:
        why = f"cannot run {errand.argv[0]}: {error.strerror}"
        return Carried(errand.name, None, problem=why)
    one = _Running(errand, process)
    running.append(one)
    out: list[bytes] = []
    err: list[bytes] = []
    pipes = [
        gevent.spawn(one.give, process.stdin, errand.stdin()),
        gevent.spawn(one.take, process.stdout, out),
        gevent.spawn(one.take, process.stderr, err),
    ]
    try:
        code = _ended(one)
        # A child that outlives the program may hold its pipes.
        gevent.joinall(pipes, timeout=1)
    finally:
        running.remove(one)
        gevent.killall(pipes)
        for pipe in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                pipe.close()
    if code == 0 and not one.problem:
        waiting.count(errand.name, time.monotonic())
    given = b"".join(out), b"".join(err), asked, time.time(), one.problem
    return Carried(errand.name, None if one.problem else code, *given)


def _ended(one: _Running) -> int:
    """Return the exit code of a program; one that was given up is killed after a grace period."""
    killed_at = math.inf
    while (code := one.process.poll()) is None:
        now = time.monotonic()
        if now - one.asked > one.errand.seconds:
            one.give_up(too_late(one.errand.seconds))
        if one.problem and killed_at == math.inf:
            killed_at = now + GRACE_SECONDS
        if now > killed_at:
            with suppress(OSError):
                os.killpg(one.process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            one.process.wait(timeout=_LOOK_SECONDS)
    return int(code)


def _watch(running: list[_Running], waiting: Waiting) -> None:
    while True:
        now = time.monotonic()
        for each in list(running):
            name = each.errand.name
            if why := waiting.given_up(name, each.asked, each.heard, now):
                each.give_up(why)
        gevent.sleep(_LOOK_SECONDS)
