"""Ports that are tried over the sessions of the probe, which are open until that is done."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest
from paramiko import Channel, ECDSAKey

from gpu_node.facts.ports.state import Tried
from tests.onboarding.serving import serving

SCRIPT = """
import sys
from gpu_node.cli.loading import loading
with loading():
    from gpu_node.facts.ask import gather
    from gpu_node.facts.ports.trying import try_ports

def is_open(host):
    return bool(host.connector.client.get_transport())

def then(answers):
    ends = {host: host.data.ssh_hostname for host in answers}
    print(all(is_open(host) for host in answers))
    for name, found in try_ports(ends).items():
        print(name, found.get("untried") or found["tried"])
    hosts.extend(answers)
    if sys.argv[2:]:
        raise RuntimeError("it fails")
    return answers

hosts = []
try:
    print(*gather._each(sys.argv[1], (), lambda host: host.name, then=then))
except RuntimeError as error:
    print(error)
print(any(is_open(host) for host in hosts))
"""
CLUSTER = """cluster: c
defaults:
  ssh: {user: root, key: key, known_hosts: known_hosts}
hosts:
"""
OPEN = Tried(ports=("open", "open", "open"), large=True)
NAMES = ("a100-01", "a100-02")


def runs(channel: Channel, command: bytes) -> None:
    """Run a command on this machine, with its stdin."""
    with subprocess.Popen(
        ["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as running:
        threading.Thread(target=feed, args=(channel, running.stdin), daemon=True).start()
        for line in running.stdout or ():
            channel.sendall(line)
        channel.send_exit_status(running.wait())
    channel.close()


def feed(channel: Channel, stdin: IO[bytes]) -> None:
    """Pass what comes by a channel on to a program."""
    while part := channel.recv(4096):
        stdin.write(part)
    stdin.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """Two nodes at addresses of loopback."""
    key = ECDSAKey.generate()
    key.write_private_key_file(str(tmp_path / "key"))
    lines, pins = [CLUSTER], []
    with ExitStack() as stack:
        for number, name in enumerate(NAMES, 1):
            address = f"127.0.9.{number}"
            sshd = stack.enter_context(serving(tmp_path / name, address))
            sshd.authorized, sshd.answer = [key], runs
            lines.append(f"  {name}: {{address: {address}, ssh: {{port: {sshd.port}}}}}\n")
            pins.append(f"[{address}]:{sshd.port} {sshd.host_key}\n")
        (tmp_path / "known_hosts").write_text("".join(pins))
        (tmp_path / "site.yml").write_text("".join(lines))
        yield tmp_path / "site.yml"


def printed(site: Path, *words: str) -> list[str]:
    """Return the lines that the script prints."""
    command = [sys.executable, "-c", SCRIPT, str(site), *words]
    home = {**os.environ, "HOME": str(site.parent)}
    done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_two_nodes(site: Path) -> None:
    """All ports are open, by the sessions that end after that, also after an error."""
    tried = [
        "True",
        f"a100-01 { {'a100-02': OPEN} }",
        f"a100-02 { {'a100-01': OPEN} }",
    ]
    assert printed(site) == [*tried, "a100-01 a100-02", "False"]
    assert printed(site, "fails") == [*tried, "it fails", "False"]
