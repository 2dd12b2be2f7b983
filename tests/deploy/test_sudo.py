"""A node whose sudo refuses is left alone, with the reason; sudo is a stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from paramiko import Channel
from pyinfra.api import Config, Host, Inventory, State, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.host import HostData
from pyinfra.connectors.util import SUDO_PASSWORD_REQUIRED_LINES, CommandOutput, OutputLine

from gpu_node.deploy.ssh.root import _require_way, require_sudo
from gpu_node.facts.ask.session import ProbeError
from gpu_node.inventories.connection.connector import Connector as OurConnector
from tests.drift import states
from tests.hostile_nodes import reply
from tests.onboarding.serving import PASSWORD as PASSWORD_OF_SSHD
from tests.onboarding.serving import Sshd, at_home, serving

PASSWORD = "sudo: a password is required"
TTY = "sudo: sorry, you must have a tty to run sudo"


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server of this test."""
    (tmp_path / "server").mkdir()
    with serving(tmp_path / "server") as server:
        yield server


class Connector:
    """Runs a command here, with another sudo."""

    def __init__(self, folder: Path, words: str) -> None:
        sudo = folder / "sudo"
        refuses = f"echo '{words}' >&2\nexit 1\n" if words else ""
        sudo.write_text(f'#!/bin/sh\n{refuses}shift; exec "$@"\n')
        sudo.chmod(0o755)
        self.path = f"{folder}:{os.environ['PATH']}"

    def run_shell_command(self, command: StringCommand, *_: Any, **__: Any) -> Any:
        """What a node answers; pyinfra would ask for a password after one of its lines."""
        argv = ["sh", "-c", command.get_raw_value()]
        env = {**os.environ, "PATH": self.path}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        lines = [OutputLine("stdout", line) for line in done.stdout.splitlines()]
        assert not {line.line.strip() for line in lines} & {*SUDO_PASSWORD_REQUIRED_LINES}
        assert done.stderr == ""
        return done.returncode == 0, CommandOutput(lines)


def host(folder: Path, words: str, **data: object) -> Host:
    """A host of an inventory whose SSH user may use sudo."""
    known = {"ssh_user": "alice", "_sudo": True, **data}
    made = HostData(cast(Host, None), *[known])
    return cast(Host, SimpleNamespace(connector=Connector(folder, words), data=made))


def test_sudo_that_runs(tmp_path: Path) -> None:
    """Nothing is raised; nor where the inventory wants no sudo."""
    require_sudo(host(tmp_path, ""))
    require_sudo(host(tmp_path, TTY, _sudo=False))


ALICE = {"limits": {"user": {"name": "alice", "uid": 1000, "gids": [1000], "groups": ["alice"]}}}


@pytest.mark.parametrize("data", [{"_sudo": False}, {}])
def test_a_user_without_root_changes_nothing(tmp_path: Path, data: dict[str, object]) -> None:
    """No operation would end well; the error says how to become root."""
    node = host(tmp_path, "", **{"_sudo": None, **data})
    with pytest.raises(ProbeError) as refused:
        _require_way(node, states.state(ALICE))
    assert "alice is not root; nothing was changed: write `ssh: {sudo: true}`" in str(refused.value)
    _require_way(node, states.state({}))
    _require_way(node, states.state({"limits": {"user": None}}))


@pytest.mark.parametrize("data", [{"_sudo": True}, {"_su_user": "root"}, {"_doas": True}])
def test_a_user_who_becomes_root(tmp_path: Path, data: dict[str, object]) -> None:
    _require_way(host(tmp_path, "", **{"_sudo": False, **data}), states.state(ALICE))


@pytest.mark.parametrize("has_terminal", [True, False])
def test_requiretty(tmp_path: Path, has_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a password nor a terminal here helps: the node's SSH session has none."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: has_terminal))
    with pytest.raises(ProbeError) as caught:
        require_sudo(host(tmp_path, TTY))
    assert f"({TTY}); nothing was changed: " in str(caught.value)
    assert "`Defaults:alice !requiretty`" in str(caught.value)


@pytest.mark.parametrize("has_terminal", [True, False])
def test_a_password(tmp_path: Path, has_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node cannot make the deploy ask for one."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: has_terminal))
    with pytest.raises(ProbeError, match=r"sudo asks alice for a password .* changed: run"):
        require_sudo(host(tmp_path, PASSWORD))


@pytest.mark.parametrize("key", ["_sudo_password", "_su_password"])
def test_a_password_of_the_inventory(tmp_path: Path, key: str) -> None:
    """pyinfra would write it into a command line of the node, which all users there can read."""
    with pytest.raises(ProbeError, match=rf"^found {key} \(.*\); allowed: .*; next: "):
        require_sudo(host(tmp_path, "", **{key: "hunter2"}))


def test_a_password_reaches_no_node(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever asks for it: an operation, a fact, or pyinfra's own settings."""
    at_home(monkeypatch, tmp_path)
    sent: list[bytes] = []

    def answer(channel: Channel, command: bytes) -> None:
        sent.append(command)
        reply(channel, b"/tmp/askpass\n")

    sshd.answer, sshd.accepts_none = answer, True
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{sshd.port} {sshd.host_key}\n")
    known = {"ssh_port": sshd.port, "ssh_user": "root", "ssh_password": PASSWORD_OF_SSHD}
    known["ssh_known_hosts_file"] = str(tmp_path / "known_hosts")
    inventory = Inventory(([("127.0.0.1", known)], {}))
    (node,) = inventory
    node.connector_cls = OurConnector
    state = State(inventory, Config())
    node.connect(raise_exceptions=True)
    try:
        with pytest.raises(PyinfraError, match="found _sudo_password"):
            node.run_shell_command("true", _sudo=True, _sudo_password="hunter2")
    finally:
        node.disconnect()
    assert state.inventory is inventory and not [each for each in sent if b"hunter2" in each]
