"""Runs `gpu-node` and `pyinfra` as forks of one process that has made their imports.

A start costs each command a second of imports, and the tests start them some hundred times. A fork
has the arguments, the environment, the folder and the streams of the call, runs the entry point of
the installed command, and ends as a process does. What is not the same: it is no child of the
caller, so a test that sends signals starts the real program; and Python has read its own variables
(LC_ALL, PYTHONPATH) already, so a call that changes them is refused. A fork sets PYTHONIOENCODING
itself.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FrameType
from typing import Any, AnyStr, NoReturn

REPOSITORY = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
PROGRAMS = ("gpu-node", "pyinfra")
# `gpu-node` with one node that answers at once.
ANSWERING = "answering"
PACKAGES = (
    *("cli", "deploy", "drift", "facts", "history", "inventories", "lab", "onboarding", "verify"),
)
# What pyinfra executes itself, what runs on nodes, and what is a program of its own.
NOT_IMPORTED = (
    "gpu_node.deploy.gpu_node",
    "gpu_node.deploy.environments",
    "gpu_node.inventories.lab",
    "gpu_node.facts.nccl.on_node",
    "gpu_node.facts.ask.via.on_clustershell",
)
# What the programs import while they run.
THEIRS = ("pyinfra.connectors.ssh", "pyinfra.connectors.local", "rich.progress", "rich.table")
# What Python, or a library as it is loaded, reads from the environment once.
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "GEVENT")
ENCODING = "PYTHONIOENCODING"
MESSAGE = 1 << 20


class Done(subprocess.CompletedProcess[AnyStr]):
    """How a fork ended; `usage` is its seconds of a processor and its most memory in MB."""

    def __init__(
        self,
        words: Sequence[str],
        code: int,
        out: AnyStr,
        err: AnyStr,
        usage: tuple[float, float],
    ) -> None:
        super().__init__(words, code)
        self.stdout, self.stderr = out, err
        self.usage = usage


def run(*words: str, cwd: Path, env: Mapping[str, str], seconds: float) -> Done[str]:
    """Run a program with pipes and without stdin, as `subprocess.run` does, and wait for its end.

    TimeoutExpired: it took longer, and was killed.
    """
    done = run_bytes(*words, cwd=cwd, env=env, seconds=seconds)
    return Done(words, done.returncode, _text(done.stdout), _text(done.stderr), done.usage)


def run_bytes(*words: str, cwd: Path, env: Mapping[str, str], seconds: float) -> Done[bytes]:
    """`run` for output in any encoding."""
    ours, theirs = socket.socketpair()
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        request = {"words": words, "cwd": str(cwd), "env": dict(env)}
        _server().request(request, [nothing, out_end, err_end, theirs.fileno()])
    finally:
        theirs.close()
        for end in (nothing, out_end, err_end):
            os.close(end)
    with ours, open(out, "rb", 0) as stdout, open(err, "rb", 0) as stderr:
        answer = _Answer(ours, stdout, stderr)
        if not answer.comes_within(seconds):
            answer.kill()
            raise subprocess.TimeoutExpired(words, seconds, *answer.streams)
        out_bytes, err_bytes = answer.streams
        return Done(words, answer.code, out_bytes, err_bytes, answer.usage)


def _text(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


class _Answer:
    """The result of a call: the fork's pid and exit code, and its output."""

    def __init__(self, ends: socket.socket, *streams: Any) -> None:
        self._files: list[Any] = [ends, *streams]
        self._data = [b"" for _ in self._files]

    @property
    def streams(self) -> list[bytes]:
        """The output on stdout and stderr."""
        return self._data[1:]

    @property
    def code(self) -> int:
        """The fork's exit code, as subprocess has it."""
        lines = self._data[0].splitlines()
        assert len(lines) == 4, f"the fork server ended: {_server().error()}"
        return int(lines[1])

    @property
    def usage(self) -> tuple[float, float]:
        """The seconds of a processor that the fork took, and its most memory in MB."""
        _, _, milliseconds, kilobytes = map(int, self._data[0].splitlines())
        return milliseconds / 1000, kilobytes / 1024

    def kill(self) -> None:
        """End the fork, unless it has ended and others hold its streams."""
        lines = self._data[0].splitlines()
        if len(lines) == 1:
            os.kill(int(lines[0]), signal.SIGKILL)

    def comes_within(self, seconds: float) -> bool:
        """Read until all of it has ended."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as waiting:
            for number, file in enumerate(self._files):
                waiting.register(file, selectors.EVENT_READ, number)
            while waiting.get_map() and (left := end - time.monotonic()) > 0:
                for key, _ in waiting.select(left):
                    data = os.read(key.fd, 65536)
                    self._data[key.data] += data
                    if not data:
                        waiting.unregister(key.fileobj)
            return not waiting.get_map()


class _Server:
    """The process that forks."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._env = dict(os.environ)
        for end in (self._ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
            cwd=REPOSITORY,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
        )
        theirs.close()
        atexit.register(self._end)

    def request(self, request: Mapping[str, Any], files: list[int]) -> None:
        """Start a program with these files as its streams and for the answer."""
        env = request["env"]
        changed = {
            name
            for name in env.keys() | self._env.keys()
            if name.startswith(READ_AT_START)
            and name != ENCODING
            and env.get(name) != self._env.get(name)
        }
        assert not changed, f"start the real program: a fork has read these: {sorted(changed)}"
        socket.send_fds(self._ours, [json.dumps(request).encode()], files)

    def error(self) -> str:
        """Return its output."""
        _, error = self._process.communicate(timeout=10)
        return error.decode(errors="replace")

    def _end(self) -> None:
        self._ours.close()
        self._process.kill()
        self._process.wait()


_starting = threading.Lock()
_servers: list[_Server] = []


def _server() -> _Server:
    """The one of this process, started by the first call, whichever thread makes it."""
    with _starting:
        if not _servers:
            _servers.append(_Server())
        return _servers[0]


def _serve(control: int) -> Callable[[], object]:
    """Fork once a request; returns in each fork, with what it is to run.

    The plain functions of the system are taken before gevent puts its own in their places: a loop
    of gevent's in this process would be a loop in each fork.
    """
    fork, poller = os.fork, select.poll()
    requests = socket.socket(fileno=control)
    programs = _programs()
    waited: dict[int, tuple[int, int]] = {}
    poller.register(control, select.POLLIN)
    while True:
        for ready, _ in poller.poll():
            if ready != control:
                poller.unregister(ready)
                pid, reply = waited.pop(ready)
                _, status, usage = os.wait4(pid, 0)
                _say(reply, os.waitstatus_to_exitcode(status))
                _say(reply, round(1000 * (usage.ru_utime + usage.ru_stime)))
                _say(reply, usage.ru_maxrss)
                os.close(ready)
                os.close(reply)
                continue
            message, files, _, _ = socket.recv_fds(requests, MESSAGE, 4)
            if not message:
                os._exit(0)
            if pid := fork():
                reply = files.pop()
                for file in files:
                    os.close(file)
                _say(reply, pid)
                ended = os.pidfd_open(pid)
                poller.register(ended, select.POLLIN)
                waited[ended] = (pid, reply)
            else:
                for ended, (_, reply) in waited.items():
                    os.close(ended)
                    os.close(reply)
                requests.close()
                return _prepared(json.loads(message), files, programs)


def _say(reply: int, number: int) -> None:
    with suppress(BrokenPipeError):
        os.write(reply, f"{number}\n".encode())


def _programs() -> dict[str, Callable[[], object]]:
    """Make all imports, and return what the commands call."""
    from gevent import monkey

    monkey.patch_all()
    found: dict[str, EntryPoint] = {
        each.name: each for each in entry_points(group="console_scripts") if each.name in PROGRAMS
    }
    programs = {name: found[name].load() for name in PROGRAMS}
    for package in PACKAGES:
        for module in pkgutil.walk_packages([str(REPOSITORY / package)], f"gpu_node.{package}."):
            if not module.name.startswith(NOT_IMPORTED):
                importlib.import_module(module.name)
    for name in THEIRS:
        importlib.import_module(name)
    _read()
    programs[ANSWERING] = importlib.import_module(f"tests.cli.{ANSWERING}").run
    # A collection in a fork would copy all that is here.
    gc.collect()
    gc.freeze()
    return programs


def _read() -> None:
    """Read what each run reads: the files of causes, and the distributions, six times a run."""
    from pyinfra.api import connectors, inventory

    from gpu_node.diagnose import cause

    for read in (cause.causes, cause.emitters, cause.stages):
        read()
    once = cache(connectors.get_all_connectors)
    inventory.get_all_connectors = connectors.get_all_connectors = once
    once()


def _prepared(
    request: Mapping[str, Any], files: list[int], programs: Mapping[str, Callable[[], object]]
) -> Callable[[], object]:
    """Turn a fork into a new start of the program; return what it runs."""
    import gevent

    gevent.reinit()
    *streams, reply = files
    os.close(reply)
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if encoding := os.environ.get(ENCODING):
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            errors = "backslashreplace" if stream is sys.stderr else "strict"
            stream.reconfigure(encoding=encoding, errors=errors)  # type: ignore[union-attr]
    name, *words = request["words"]
    sys.argv = [str(BIN / name), *words]
    sys.path[0] = str(BIN)
    return programs[name]


def _ended(program: Callable[[], object]) -> NoReturn:
    """Run a program and end as Python does, but leave the modules: their removal takes longest."""
    try:
        code = program()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{error!r}", file=sys.stderr)
        code = 120
    os._exit((code or 0) & 0xFF)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    os._exit(1)


if __name__ == "__main__":
    heeded = signal.getsignal(signal.SIGINT)
    if heeded is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)
    program = _serve(int(sys.argv[1]))
    signal.signal(signal.SIGINT, heeded)
    _ended(program)
