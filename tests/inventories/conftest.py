"""Inventories as pyinfra's command loads them, and a server that it logs in to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from paramiko import Channel, ECDSAKey
from pyinfra.api import Config, Inventory, State
from pyinfra.context import ctx_config, ctx_state
from pyinfra_cli.inventory import make_inventory
from pyinfra_cli.main import cli

from gpu_node.facts.ask.gather import ask_each
from gpu_node.facts.probe.protocol import Readings, Section
from gpu_node.inventories.pyinfra_groups import InventoryRefused
from tests.hostile_nodes import reply
from tests.onboarding.serving import Sshd, at_home, serving

MINE = ECDSAKey.generate()


@cache
def _answered(command: str, sent: bytes) -> tuple[bytes, int]:
    """Run the script of a probe, which starts 25 processes, once for all tests that ask alike."""
    done = subprocess.run(["sh", "-c", command], input=sent, capture_output=True, check=False)
    return done.stdout, done.returncode


def honest(channel: Channel, command: bytes) -> None:
    """Answer as this machine does."""
    with channel.makefile("rb") as sent:
        reply(channel, *_answered(command.decode(), sent.read()))


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A server that lets MINE in; pyinfra's own client comes back afterwards."""
    at_home(monkeypatch, tmp_path)
    home = tmp_path / "server"
    home.mkdir()
    with serving(home) as server:
        server.authorized = [MINE]
        yield server


def ask(sshd: Sshd, known_hosts: bytes | None = None, seconds: int = 10, **more: Any) -> str:
    """Probe the server and return its answer, or the reason why there is none.

    `known_hosts` are pinned keys, the server's own where it is None; `more` is data of the host.
    """
    folder = sshd.home.parent
    sshd.answer = sshd.answer or honest
    if known_hosts is None:
        known_hosts = f"[127.0.0.1]:{sshd.port} {sshd.host_key}\n".encode()
    (folder / "known_hosts").write_bytes(known_hosts)
    MINE.write_private_key_file(str(folder / "key"))
    data = {
        "ssh_hostname": "127.0.0.1",
        "ssh_port": sshd.port,
        "ssh_user": "root",
        "ssh_key": str(folder / "key"),
        "ssh_known_hosts_file": str(folder / "known_hosts"),
        **more,
    }
    (folder / "nodes.py").write_text(f"hosts = [('n', {data!r})]\n")
    answer = ask_each(str(folder / "nodes.py"), (), [Section("one", "echo here", seconds)])["n"]
    return answer.sections["one"].require() if isinstance(answer, Readings) else answer


def loaded(inventory: str, **data: object) -> Inventory:
    """Load an inventory as pyinfra's command does."""
    with ctx_state.use(State(check_for_changes=False)), ctx_config.use(Config()):
        found: Inventory = make_inventory(inventory, override_data=data, cwd=str(Path.cwd()))
    return found


def options_of(inventory: str, *options: str) -> AbstractContextManager[click.Context]:
    """Return the context of pyinfra's command with these options, as the command parses them."""
    context: click.Context = cli.make_context("pyinfra", [inventory, *options, "debug-inventory"])
    return context


def refused(inventory: object, *options: str) -> list[str]:
    """Load an inventory with options of pyinfra's command line; return the problems."""
    with options_of(str(inventory), *options), pytest.raises(InventoryRefused) as error:
        loaded(str(inventory))
    return list(error.value.lines)
