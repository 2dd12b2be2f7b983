"""Runs the product as a user does, and reads nodes by another path than its own facts."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from gpu_node.lab import disks, network, nodes, roster
from gpu_node.lab.machine import as_root
from tests import fork_server

REPOSITORY = roster.REPOSITORY
INVENTORY = "inventories/lab.py"
DEPLOY = "deploy/gpu_node.py"
MANAGED = ("a100-01", "v100-01")
BIN = Path(sys.executable).parent
# A deploy takes one minute, and many times that where other tests run beside it.
SECONDS = 480
# What a node writes at each login, and the lab's own traces; and what rpm
# writes about who reads its database (sqlite's index of its log), whatever it is asked. A run that
# was refused leaves the folder in which its backups would have been, where the system has none.
NOISE = re.compile(
    r"^(var/log|run|var/run|tmp|var/tmp|var/lib/pam|var/cache)(/|$)"
    r"|^var/backups$"
    r"|^var/lib/rpm/(rpmdb\.sqlite-(shm|wal)|\.rpm\.lock)$"
)


@dataclass(frozen=True)
class Run:
    """How a command ended: exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The last line or the whole of stdout as JSON; pyinfra writes one line."""
        return json.loads(self.out if self.out.startswith("{\n") else self.out.splitlines()[-1])


def run(*command: str, seconds: int = SECONDS) -> Run:
    """Run one of the project's programs from the repository root, without a terminal."""
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = fork_server.run(*command, cwd=REPOSITORY, env=env, seconds=seconds)
    own = done.stderr
    if "-vvv" in command:  # pyinfra shows what a node's programs print, after the node's name
        own = re.sub(r"^ *\[\S+\] Traceback", "", own, flags=re.MULTILINE)
    assert "Traceback" not in own, done.stderr
    return Run(done.returncode, done.stdout, done.stderr)


def drift(inventory: str = INVENTORY, *options: str) -> Run:
    """The drift report as JSON."""
    return run("gpu-node", "drift", inventory, "--format", "json", *options)


def dry(
    inventory: str = INVENTORY, *options: str, unreadable: bool = False
) -> dict[str, list[str]]:
    """The operations that a dry run announces, each with its hosts; exit 1: one is unreadable."""
    done = run("pyinfra", "--dry", "--json", inventory, DEPLOY, *options)
    assert done.code == int(unreadable), done.err
    return {each["name"]: each["hosts_with_change"] for each in done.json["plan"]}


@dataclass(frozen=True)
class Converge:
    """A real run: exit code, operations by host, failed hosts, and output."""

    code: int
    executed: dict[str, list[str]]
    failed: list[str]
    err: str


def converge(inventory: str = INVENTORY, *options: str, seconds: int = SECONDS) -> Converge:
    """Run the deploy for real; where no host is left pyinfra stops without a result."""
    done = run("pyinfra", "-y", "--json", inventory, DEPLOY, *options, seconds=seconds)
    if not done.out and "No hosts remaining!" in done.err:
        return Converge(done.code, {}, ["every host"], done.err)
    results = done.json["results"]
    executed = {
        each["name"]: sorted([*each["success"], *each["error"]]) for each in results["operations"]
    }
    return Converge(done.code, executed, results["failed_hosts"], done.err)


def converge_and_report(inventory: str) -> Converge:
    """Run the deploy over the whole inventory; after exit 0 the report agrees with it.

    No error and no fixable finding is left. A warning that is left was printed by the run, and is
    the only reason why the report may end with 2.
    """
    done = converge(inventory)
    if done.code == 0:
        report = drift(inventory)
        left = [
            (node, finding)
            for node, host in report.json["hosts"].items()
            for finding in host["findings"]
            if finding["severity"] != "info"
        ]
        wrong = [each for each in left if each[1]["severity"] == "error" or each[1]["fixable"]]
        assert wrong == [], done.err
        for node, finding in left:
            lines = [line for line in done.err.splitlines() if f"[{node}] " in line]
            assert any(f"{finding['subject']}: " in line for line in lines), finding
        assert report.code == (2 if left else 0), report.json["differences"]
    return done


def kill_once(node: str, is_begun: str, *command: str) -> None:
    """Start a program, and kill it with all of its children when what it does has begun.

    `is_begun` is a condition of sh that is watched on the node: to begin there anew for each look
    may take longer on a busy machine than all that is looked for.
    """
    watch = f"n=0; until {is_begun} || [ $n -ge {SECONDS * 10} ]; do n=$((n + 1)); sleep 0.1; done"
    with (
        ThreadPoolExecutor() as beside,
        TemporaryFile() as output,
        subprocess.Popen(
            [str(BIN / command[0]), *command[1:]],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as running,
    ):
        watching = beside.submit(on, node, watch)
        while not watching.done() and running.poll() is None:
            time.sleep(0.05)
        output.seek(0)
        assert running.poll() is None, output.read().decode()
        watching.result()
        os.killpg(running.pid, signal.SIGKILL)


def on(node: str, script: str) -> str:
    """What a script prints on a node, run beside its sshd."""
    return nodes.execute(node, script, check=True).stdout


def content(node: str, path: str) -> bytes:
    """The bytes of a file on a node."""
    return base64.b64decode(on(node, f"base64 {path}"))


def manifest(node: str) -> dict[str, str]:
    """Everything written to a node's disk since it was made: path, and all that can change.

    Read from the overlay's upper layer on this machine. Directories have mode and owner
    alone, as their times change with their entries.
    """
    upper = disks.home(node) / "upper"
    form = r"%P\t%y %m %U:%G %l\t%s %T@ %i\0"
    listed = as_root(["find", upper, "-mindepth", "1", "-printf", form]).stdout
    entries = (entry.split("\t") for entry in listed.split("\0") if entry)
    return {
        path: kind if kind.startswith("d") else f"{kind} {change}"
        for path, kind, change in entries
        if not NOISE.match(path)
    }


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Paths that are in one manifest only, or differ."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def assert_at_rest(inventory: str, node: str) -> None:
    """The report is clean, and another converge runs nothing and touches nothing."""
    report = drift(inventory)
    assert report.code == 0, report.out
    before = manifest(node)
    again = converge(inventory)
    assert (again.code, again.executed) == (0, {})
    assert changed(before, manifest(node)) == set()


def sshd_counts(node: str, since: str) -> tuple[int, int]:
    """How many connections and execs of the controller's sshd logged after the text `since`.

    The nodes log in to each other as well, to see whether they can.
    """
    new = nodes.logs(node).removeprefix(since)
    here = re.escape(str(network.GATEWAY.ip))
    connections = len(re.findall(rf"Connection from {here} port \d+", new))
    sessions = rf"Starting session: (?:command|shell|subsystem).* from {here} port \d+"
    return connections, len(re.findall(sessions, new))
