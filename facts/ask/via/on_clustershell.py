"""Carries scripts to nodes with ClusterShell, as a program: orders on stdin, answers on stdout.

It imports nothing of pyinfra, gevent or paramiko. `clustershell` starts it, and describes a line of
each kind. ClusterShell's fanout is that of the site. A gateway of the site's topology.conf is not
used: it sends pickles, which ClusterShell loads, and names the node that each line is of.
"""

import base64
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ClusterShell.Event import EventHandler
from ClusterShell.Task import Task, task_self
from ClusterShell.Worker.Ssh import SshClient, WorkerSsh
from typing_extensions import override

from gpu_node.facts.ask.waiting import Waiting, too_late

BEHIND = (
    "topology.conf has a gateway for it, whose root could run code on this machine; next: report "
    "without --via, or set auto_tree: no in ClusterShell's defaults.conf: ssh then asks the node"
)
# ssh that has closed its streams ends at once; one that does not is killed.
_END_SECONDS, _PAUSE_SECONDS = 1.0, 0.01


@dataclass
class _Node:
    """A node, what came from it so far, and when it was asked and last heard (monotonic)."""

    name: str
    ssh: list[str]
    seconds: float
    script: str
    code: int | None = None
    problem: str = ""
    out: list[bytes] = field(default_factory=list)
    err: list[bytes] = field(default_factory=list)
    size: int = 0
    lines: int = 0
    began: float = 0
    asked: float = 0
    heard: float | None = None
    # Whether anything came that the node itself has printed.
    reached: bool = False
    done: bool = False


class _Run(EventHandler):  # type: ignore[misc]
    """All nodes, and what ClusterShell reports of them."""

    def __init__(self, shared: dict[str, Any], nodes: Iterable[_Node]) -> None:
        super().__init__()
        self.shared = shared
        self.command = shlex.join(["sh", "-c", shared["command"]])
        self.nodes = {node.name: node for node in nodes}
        self.waiting = Waiting(len(self.nodes), shared["last"])
        self.clients: dict[str, Any] = {}

    def ev_pickup(self, worker: Any, node: str) -> None:
        """ssh to a node begins."""
        one = self.nodes[node]
        one.began, one.asked = time.monotonic(), time.time()

    def take(self, one: _Node, data: bytes, is_error: bool) -> None:
        """Keep what a node has sent, until it is too much."""
        if one.done:
            return
        one.heard = time.monotonic()
        one.size += len(data)
        one.lines += data.count(b"\n")
        one.reached |= not is_error
        if one.size <= self.shared["most"] and one.lines <= self.shared["most_lines"]:
            (one.err if is_error else one.out).append(data)
        else:
            self.end(one, problem=self.shared["too_much"])

    def ev_hup(self, worker: Any, node: str, rc: int) -> None:
        """ssh to a node has ended."""
        one = self.nodes[node]
        if rc == 0:
            self.waiting.count(node, time.monotonic())
        self.end(one, code=rc)

    def ev_close(self, worker: Any, timedout: bool) -> None:
        """A worker has ended, with its time limit where its node has not ended before."""
        for name in worker.nodes:
            one = self.nodes[str(name)]
            self.end(one, problem=too_late(one.seconds))

    def ev_timer(self, timer: Any) -> None:
        """Give up what is much slower than the others."""
        now = time.monotonic()
        for one in self.nodes.values():
            if one.began and not one.done:
                why = self.waiting.given_up(one.name, one.began, one.heard, now)
                if why:
                    self.end(one, problem=why)

    def end(self, one: _Node, code: int | None = None, problem: str = "") -> None:
        """Print the answer of a node, once; the last one ends this process."""
        if one.done:
            return
        one.done = True
        if problem and one.name in self.clients:
            with suppress(OSError):  # ClusterShell may have ended it
                self.clients[one.name].kill()
        answer = {
            "name": one.name,
            "code": code,
            "problem": problem,
            "reached": one.reached,
            "asked": one.asked or time.time(),
            "answered": time.time(),
            "out": _coded(one.out),
            "err": _coded(one.err),
        }
        one.out, one.err, one.script = [], [], ""
        print(json.dumps(answer), flush=True)
        if all(node.done for node in self.nodes.values()):
            self.stop(0)

    def stop(self, code: int) -> None:
        """End this process, and every ssh with it."""
        for client in self.clients.values():
            with suppress(OSError):
                client.kill()
        os._exit(code)


def _coded(parts: list[bytes]) -> str:
    return base64.b64encode(b"".join(parts)).decode()


def _client_of(run: _Run) -> type[SshClient]:
    class Client(SshClient):  # type: ignore[misc]
        """ssh with the options that the inventory has for a node."""

        @property
        def node(self) -> _Node:
            """The node that it asks."""
            return run.nodes[str(self.key)]

        @override
        def _build_cmd(self) -> tuple[list[str], None]:
            return [*self.node.ssh, self.command], None

        @override
        def _start(self) -> Any:
            started = super()._start()
            run.clients[self.node.name] = self.popen
            return started

        @override
        def _handle_read(self, sname: str) -> None:
            # ClusterShell copies a line without an end anew with each part, and calls for each one.
            run.take(self.node, self._read(sname), sname == self.worker.SNAME_STDERR)

        @override
        def _close(self, abort: bool, timeout: bool) -> None:
            # ClusterShell waits without a limit; a node decides when ssh closes its streams.
            end = time.monotonic() + (0 if abort else _END_SECONDS)
            while self.popen.poll() is None and time.monotonic() < end:
                time.sleep(_PAUSE_SECONDS)
            if self.popen.poll() is None:
                self.popen.kill()
            super()._close(abort, timeout)

    return Client


def _schedule(task: Task, run: _Run, node: _Node) -> None:
    """Plan one node; one behind a gateway is not asked."""
    if _is_behind(task, node.name):
        run.end(node, problem=BEHIND)
        return
    worker = task.default("distant_worker")(
        node.name, command=run.command, handler=run, timeout=node.seconds, stderr=True
    )
    task.schedule(worker)
    worker.write(node.script.encode())
    worker.set_write_eof()


def _is_behind(task: Task, name: str) -> bool:
    """Whether the site's topology has a gateway on the way to a node."""
    if not task._default_tree_is_enabled():
        return False
    near = [task.topology.root, *task.topology.root.children()]
    return any(name in group.nodeset for group in task.topology.groups if group not in near)


def main() -> None:
    """Read orders, carry the scripts, print an answer for each node."""
    shared = json.loads(sys.stdin.readline())
    run = _Run(shared, [_Node(**json.loads(line)) for line in sys.stdin])
    signal.signal(signal.SIGTERM, lambda *_: run.stop(1))
    task = task_self()
    worker = type("Worker", (WorkerSsh,), {"SHELL_CLASS": _client_of(run)})
    task.set_default("distant_worker", worker)
    for stream in ("stdout", "stderr"):
        task.set_default(f"{stream}_msgtree", False)  # it would keep all output a second time
    task.set_info("connect_timeout", shared["connect"])
    for node in run.nodes.values():
        _schedule(task, run, node)
    task.timer(1.0, handler=run, interval=1.0, autoclose=True)
    why = "without an answer of it"
    try:
        task.resume()
    except Exception as error:  # what is known of the others is not lost
        why = f"with {type(error).__name__}: {error}"
    for node in run.nodes.values():
        run.end(node, problem=f"ClusterShell ended {why}")
    run.stop(0)


if __name__ == "__main__":
    main()
