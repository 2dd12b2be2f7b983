"""Runs what reads the files of others in a child process, within limits of memory and time."""

import os
import pickle
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn, TypeVar

MIB = 1 << 20
# How much memory the child may have beside what the command has.
MEMORY = 1 << 30
# Seconds of processor time for one file and for all of them, and more for each MiB of a file.
OF_ONE, OF_ALL, OF_MIB = 10.0, 30.0, 0.2
# What no exception interrupts, as code in C, ends by the kernel's limit so much later.
_GRACE = 10

T = TypeVar("T")


class Exceeded(BaseException):
    """More than a limit allows. No Exception: what reads any text may pass over those."""


class Ended(Exception):
    """The child ended without an answer; `str()` says how."""


@dataclass
class _Budget:
    """Processor time since `began` for some files, of which each byte that is read allows some."""

    of: str
    least: float
    began: float = field(default_factory=time.process_time)
    bytes: int = 0

    @property
    def allowed(self) -> float:
        return self.least + OF_MIB * self.bytes / MIB

    @property
    def left(self) -> float:
        return self.began + self.allowed - time.process_time()


class Meter:
    """Counts the bytes that are read; once started, it interrupts what takes too long for them."""

    def __init__(self) -> None:
        # For all files, and for the one that is read.
        self._budgets = [_Budget("all", OF_ALL)]
        self._is_started = False

    @property
    def is_spent(self) -> bool:
        """Whether no time is left for further files."""
        return self._budgets[0].left <= 0

    def start(self) -> None:
        """Interrupt from now on; only for a process of which this is all the work."""
        signal.signal(signal.SIGPROF, self._look)
        self._is_started = True
        self._limit()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Read one file within; Exceeded if that takes too long, or too much memory."""
        self._budgets.append(_Budget("its", OF_ONE))
        if self._is_started:
            self._limit()
        try:
            yield
        except MemoryError:
            raise Exceeded(f"more than {MEMORY // MIB:,} MiB of memory") from None
        finally:
            del self._budgets[1:]

    def read(self, count: int) -> None:
        """Count bytes of a file as it is on disk: a few of a packed one may become many."""
        for budget in self._budgets:
            budget.bytes += count

    def _look(self, *_: object) -> None:
        self._limit()
        spent = [each for each in self._budgets if each.left <= 0]
        if spent and self._budgets[1:]:
            del self._budgets[1:]
            size = f"{spent[-1].of} {spent[-1].bytes / MIB:.1f} MiB"
            raise Exceeded(f"more than {spent[-1].allowed:.0f} s of processor time for {size}")

    def _limit(self) -> None:
        left = [each.left for each in self._budgets]
        signal.setitimer(signal.ITIMER_PROF, max(0.1, min(left)))
        _lower(resource.RLIMIT_CPU, int(time.process_time() + max(0, left[0]) + _GRACE))


def apart(work: Callable[[Meter], T]) -> T:
    """Return what some work returns, done by a child within limits; raise what it raises.

    The child has all that is imported. Ended: it has more than its limits, or was killed.
    """
    # As files: gevent's os.close waits for a turn of its hub.
    reader, writer = map(open, os.pipe(), ("rb", "wb"))
    child = os.fork()
    if child == 0:
        reader.close()
        _answer(work, writer)
    writer.close()
    try:
        with reader:
            data = reader.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        status = os.waitpid(child, 0)[1]
    if status != 0 or not data:
        code = os.waitstatus_to_exitcode(status)
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with {code}"
        raise Ended(f"the process that reads files ended {how}")
    answer, error = pickle.loads(data)  # noqa: S301 (the child is this program)
    if error is not None:
        raise error
    return answer  # type: ignore[no-any-return]


def _answer(work: Callable[[Meter], T], writer: IO[bytes]) -> NoReturn:
    """Do the work in the child, write what it returns or raises, and end."""
    try:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        with suppress(OSError):
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY)
        meter = Meter()
        meter.start()
        try:
            answer = pickle.dumps((work(meter), None))
        except Exception as error:  # of any class: it is raised where the answer is awaited
            answer = pickle.dumps((None, error))
        signal.setitimer(signal.ITIMER_PROF, 0)
        with writer:
            writer.write(answer)
        os._exit(0)
    finally:
        os._exit(1)


def _lower(limit: int, value: int) -> None:
    """Set a limit of the process, unless a lower one holds."""
    hard = resource.getrlimit(limit)[1]
    with suppress(ValueError, OSError):  # macOS knows no limit of the address space
        resource.setrlimit(limit, (value if hard < 0 else min(value, hard), hard))
