"""Nodes of network namespaces: each has an address, a hostname, /tmp and /etc/hosts."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gevent
from gevent import subprocess as patient
from gevent.pool import Pool
from pyinfra.api import Host
from pyinfra.api.command import StringCommand
from pyinfra.connectors.util import CommandOutput, OutputLine
from typing_extensions import override

from gpu_node.facts.probe.peers import Peer
from gpu_node.inventories.connection.capped import Talk
from gpu_node.inventories.connection.connector import Connector
from gpu_node.inventories.wanted import NodeWanted
from gpu_node.verify.outcome import Outcome
from gpu_node.verify.request import Request
from gpu_node.verify.run import _Run
from gpu_node.verify.sessions import Node
from tests.verify.job_scripts import program

INTERFACE = "train0"


class Nodes:
    """Running nodes: their addresses, and the processes whose namespaces they are."""

    def __init__(self, holders: dict[str, int], folder: Path, python: str) -> None:
        self.holders, self.folder, self.python = holders, folder, python
        self.addresses = {name: f"10.99.0.{at}" for at, name in enumerate(holders, 1)}
        self.pythons = dict.fromkeys(holders, python)
        # Words before those of a command, in the node and outside of it.
        self.before: dict[str, list[str]] = {name: [] for name in holders}
        self.around: dict[str, list[str]] = {name: [] for name in holders}

    def words(self, name: str, *words: str) -> list[str]:
        """Return the words that run a command on a node."""
        inside = ["nsenter", f"--target={self.holders[name]}", "--net", "--uts", "--mount"]
        return [*self.around[name], *inside, *self.before[name], *words]

    def on(self, name: str, script: str) -> str:
        """Run a script on a node; return what it prints."""
        done = subprocess.run(
            self.words(name, "sh", "-ec", script), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python_with(self, name: str, variable: str) -> None:
        """Have a node's Python begin with a variable."""
        wrapper = f'#!/bin/sh\nexec env {variable} {self.python} "$@"\n'
        program(self.folder / name, "python3", wrapper)
        self.pythons[name] = str(self.folder / name / "python3")

    def left(self) -> dict[str, str]:
        """Return the files and processes of a verification on each node."""
        files = "ls -d /tmp/gpu-node-* 2>/dev/null || true"
        return {name: found for name in self.holders if (found := self.on(name, files))}

    def verify(
        self,
        seconds: int = 90,
        progress: Callable[[str], None] = lambda stage: None,
        ends: bool = True,
    ) -> Outcome:
        """Verify these nodes; where the run is not ended, only its connections are."""
        run = _Nodes(self, Request("", "gloo", seconds, 4 << 20), progress)
        try:
            return run.verified([self.host(name) for name in self.holders])
        finally:
            if ends:
                run.cleared()
            elif run.tries is not None:
                run.tries.close()

    def host(self, name: str) -> Host:
        """Return a node as an inventory has it."""
        data: dict[str, Any] = {"ssh_hostname": self.addresses[name]}
        data["launcher_python"] = self.pythons[name]
        made = _Named(name=name, data=SimpleNamespace(dict=lambda: data))
        made.connector = _Inside(self, name)
        return cast(Host, made)


class _Named(SimpleNamespace):
    """What is used of a host; as a host, it can be a key."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class _Nodes(_Run):
    def __init__(self, nodes: Nodes, request: Request, progress: Callable[[str], None]) -> None:
        state = cast(Any, SimpleNamespace(pool=Pool(50)))
        super().__init__(state, request, progress)
        self.nodes = nodes

    @override
    def opened(self, host: Host) -> Node:
        peer = Peer(name=host.name, address=self.nodes.addresses[host.name])
        return Node(host, peer, NodeWanted.from_data(host.data.dict()), "root")


class _Inside(Connector):
    """Runs commands in a node's namespaces."""

    def __init__(self, nodes: Nodes, name: str) -> None:
        self.nodes, self.name = nodes, name

    @override
    def run_shell_command(
        self, command: StringCommand, *_: bool, **arguments: Any
    ) -> tuple[bool, CommandOutput]:
        path = f"PATH={self.nodes.folder}:/usr/sbin:/usr/bin:/sbin:/bin"
        words = ["env", "-i", path, "HOME=/root", "sh", "-c", command.get_raw_value()]
        talk: Talk | None = arguments.get("_stdin") or None
        with patient.Popen(
            self.nodes.words(self.name, *words),
            stdin=patient.PIPE,
            stdout=patient.PIPE,
            stderr=patient.STDOUT,
        ) as running:
            writing = gevent.spawn(_write, running, talk)
            lines = []
            for line in running.stdout:
                lines.append(line)
                if talk:
                    talk.hear("stdout", line)
            code = running.wait(timeout=arguments["_timeout"])
            writing.join()
        text = b"".join(lines).decode().removesuffix("\n")
        return code == 0, CommandOutput([OutputLine("stdout", each) for each in text.split("\n")])


def _write(running: Any, talk: Talk | None) -> None:
    while talk and running.poll() is None and (sent := talk.more()) is not None:
        running.stdin.write(sent)
        running.stdin.flush()
        gevent.sleep(0.02)
    running.stdin.close()


@contextmanager
def running(names: Sequence[str], folder: Path, python: str) -> Iterator[Nodes]:
    """Run nodes that reach each other over a switch, until the end of the context."""
    with ExitStack() as ends:

        def hold(*kinds: str) -> int:
            words = ["unshare", *kinds, "sh", "-c", "echo; exec sleep 3600"]
            held = subprocess.Popen(words, stdout=subprocess.PIPE)
            ends.callback(held.communicate)
            ends.callback(held.kill)
            assert held.stdout is not None
            held.stdout.readline()
            return held.pid

        switch = hold("--net")
        nodes = Nodes({name: hold("--net", "--uts", "--mount") for name in names}, folder, python)
        inside = f"nsenter --target={switch} --net"
        script = f"{inside} ip link add bridge type bridge; {inside} ip link set bridge up\n"
        hosts = "".join(f"{each} {name}\n" for name, each in nodes.addresses.items())
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        for name, pid in nodes.holders.items():
            script += (
                f"ip link add {name} netns {switch} type veth peer name {INTERFACE} netns {pid}\n"
                f"{inside} ip link set {name} master bridge up\n"
            )
        subprocess.run(["sh", "-ec", script], check=True)
        cases = ""
        for name, address in nodes.addresses.items():
            hosts_of = folder / f"hosts.{name}"
            hosts_of.write_text((folder / "hosts").read_text())
            nodes.on(
                name,
                f"ip link set lo up; ip link set {INTERFACE} up; "
                f"ip addr add {address}/24 dev {INTERFACE}; hostname {name}; "
                f"mount --bind {hosts_of} /etc/hosts; mount -t sysfs none /sys; "
                f"mount -t tmpfs none /tmp",
            )
            cases += f"*' {name} sh '*) set -- {shlex.join(nodes.words(name))} sh -c \"$last\" ;;\n"
        last = 'for last; do :; done\ncase "$*" in\n'
        program(folder, "ssh", f'{last}{cases}esac\nexec "$@"\n')
        yield nodes
