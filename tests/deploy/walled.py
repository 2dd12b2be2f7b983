"""Nodes of network namespaces with a real firewalld, reached over SSH from this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from paramiko import Channel, ECDSAKey

from tests import firewalls
from tests.onboarding.serving import serving
from tests.verify import namespaces
from tests.verify.namespaces import INTERFACE, Nodes

CLUSTER = """cluster: c
defaults:
  ssh: {user: root, key: key, known_hosts: known_hosts}
  network: {interface: %s}
  firewall: {trust_nodes: true}
hosts:
"""
# Without systemd it is asked itself.
SYSTEMCTL = """#!/bin/sh
[ "$*" != 'is-active --quiet firewalld' ] || exec firewall-cmd -q --state
exit 1
"""


class Site:
    """An inventory of such nodes, and the commands about it."""

    def __init__(self, nodes: Nodes, file: Path) -> None:
        self.nodes, self.file = nodes, file

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run gpu-node with words, of which FILE is the inventory."""
        given = [str(self.file) if each == "FILE" else each for each in words]
        return subprocess.run(
            [Path(sys.executable).with_name("gpu-node"), *given],
            env={**os.environ, "HOME": str(self.file.parent), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=300,
        )


def _runs(nodes: Nodes, name: str, channel: Channel, command: bytes) -> None:
    """Run a command on a node, with its stdin."""
    path = f"PATH={nodes.folder}:/usr/sbin:/usr/bin:/sbin:/bin"
    words = nodes.words(name, "env", "-i", path, "HOME=/root", "sh", "-c", command.decode())
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
        ) as running,
    ):
        threading.Thread(target=_feed, args=(channel, running.stdin), daemon=True).start()
        for line in running.stdout or ():
            channel.sendall(line)
        code = running.wait()
        errors.seek(0)
        channel.sendall_stderr(errors.read())
        channel.send_exit_status(code)
    channel.close()


def _feed(channel: Channel, stdin: IO[bytes]) -> None:
    while part := channel.recv(4096):
        stdin.write(part)
    stdin.close()


@contextmanager
def running(names: Sequence[str], folder: Path) -> Iterator[Site]:
    """Run nodes; each has a firewalld that has not begun."""
    with namespaces.running(names, folder, "python3") as nodes, ExitStack() as stack:
        (folder / "systemctl").write_text(SYSTEMCTL)
        (folder / "systemctl").chmod(0o755)
        key, lines, pins = ECDSAKey.generate(), [CLUSTER % INTERFACE], []
        key.write_private_key_file(str(folder / "key"))
        for number, name in enumerate(names, 1):
            stack.callback(_ended, nodes, name)
            firewalls.given(nodes, name)
            address = f"127.0.9.{number}"
            sshd = stack.enter_context(serving(folder / name, address))
            sshd.authorized, sshd.answer = [key], partial(_runs, nodes, name)
            lines.append(f"  {name}: {{address: {address}, ssh: {{port: {sshd.port}}}}}\n")
            pins.append(f"[{address}]:{sshd.port} {sshd.host_key}\n")
        (folder / "known_hosts").write_text("".join(pins))
        (folder / "site.yml").write_text("".join(lines))
        yield Site(nodes, folder / "site.yml")


def _ended(nodes: Nodes, name: str) -> None:
    """End the processes of a node's network namespace but the one that holds it."""
    own = os.readlink(f"/proc/{nodes.holders[name]}/ns/net")
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        pid = int(path.parts[2])
        try:
            if os.readlink(path) == own and pid != nodes.holders[name]:
                os.kill(pid, 9)
        except OSError:
            continue
