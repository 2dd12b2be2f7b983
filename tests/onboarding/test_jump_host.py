"""Jump hosts of ssh's configuration are believed as nodes are: by what known_hosts has of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paramiko import ECDSAKey, PKey

from gpu_node.facts.ask.gather import ask_each
from gpu_node.facts.ask.host_key import NoHostKey, offered
from gpu_node.facts.probe.protocol import Readings, Section
from gpu_node.inventories.connection import handshake
from gpu_node.inventories.connection.refused_keys import refusal
from gpu_node.inventories.connection.ssh_config import check
from tests.onboarding.serving import Sshd, at_home, serving

MINE, JUMP, HOST, OTHER = (ECDSAKey.generate() for _ in range(4))


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Sshd, Sshd]]:
    """A jump host and a node behind it; ssh's configuration names the way."""
    at_home(monkeypatch, tmp_path)
    for name in ("jump", "node", ".ssh"):
        (tmp_path / name).mkdir()
    MINE.write_private_key_file(str(tmp_path / ".ssh" / "id_ecdsa"))
    with serving(tmp_path / "jump") as jump, serving(tmp_path / "node") as node:
        jump.authorized = node.authorized = [MINE]
        jump.keys, node.keys = [JUMP], [HOST]
        yield jump, node


def line(sshd: Sshd, key: PKey) -> str:
    """Return a line of known_hosts about a server."""
    return f"[127.0.0.1]:{sshd.port} {key.get_name()} {key.get_base64()}\n"


def configured(servers: tuple[Sshd, Sshd], more: str = "") -> dict[str, Any]:
    """Write ssh's configuration, and return the node's host data."""
    jump, node = servers
    home = jump.home.parent
    config = home / f"config-{jump.port}-{node.port}"
    config.write_text(
        f"Host node\n  HostName 127.0.0.1\n  ProxyJump root@127.0.0.1:{jump.port}\n"
        f"Host *\n  IdentityFile {home}/.ssh/id_ecdsa\n{more}"
    )
    (home / "pins").write_text(line(node, HOST))
    return {
        "ssh_hostname": "node",
        "ssh_port": node.port,
        "ssh_user": "root",
        "ssh_config_file": str(config),
        "ssh_known_hosts_file": str(home / "pins"),
    }


def connected(servers: tuple[Sshd, Sshd], known: str, more: str = "") -> str:
    """Probe the node through the jump host; return its answer, or why there is none."""
    home = servers[0].home.parent
    (home / ".ssh" / "known_hosts").write_text(known)
    data = configured(servers, more)
    (home / "nodes.py").write_text(f"hosts = [('n', {data!r})]\n")
    answer = ask_each(str(home / "nodes.py"), (), [Section("one", "echo here")])["n"]
    return answer.sections["one"].require() if isinstance(answer, Readings) else answer


def test_a_pinned_jump_host(servers: tuple[Sshd, Sshd]) -> None:
    """The control: the node is asked through it."""
    jump, node = servers
    assert connected(servers, line(jump, JUMP)) == "here"
    assert jump.forwarded == [("127.0.0.1", node.port)]
    assert not jump.agent_asked and not node.agent_asked


LAX = "".join(
    f"  {each}\n" for each in ("StrictHostKeyChecking \x6eo", "ForwardAgent yes", "CheckHostIP no")
)


@pytest.mark.parametrize("more", ["", LAX], ids=["default", "lax"])
def test_an_unknown_jump_host(servers: tuple[Sshd, Sshd], more: str) -> None:
    """No login, no question, nothing is pinned; the reason names the jump host."""
    jump, node = servers
    error = connected(servers, "", more)
    assert "the jump host 127.0.0.1: " in error and "No host key for" in error
    assert "log in to it once with ssh" in error
    assert jump.attempts == [] and node.attempts == []
    assert (jump.home.parent / ".ssh" / "known_hosts").read_text() == ""


def test_a_changed_jump_host(servers: tuple[Sshd, Sshd]) -> None:
    """Another machine may be in its place."""
    jump, _ = servers
    assert "the jump host 127.0.0.1: " in connected(servers, line(jump, OTHER))
    assert jump.attempts == []


def test_a_revoked_jump_host(servers: tuple[Sshd, Sshd]) -> None:
    """Its key is pinned and revoked."""
    jump, _ = servers
    known = (
        f"{line(jump, OTHER)}{line(jump, JUMP)}@revoked * {JUMP.get_name()} {JUMP.get_base64()}\n"
    )
    error = connected(servers, known)
    assert "the jump host 127.0.0.1: " in error and "is revoked by a @revoked line" in error
    assert jump.attempts == []


def test_an_agent_is_not_forwarded(servers: tuple[Sshd, Sshd]) -> None:
    """Neither to the jump host nor to the node, whatever ssh's configuration says."""
    jump, node = servers
    assert connected(servers, line(jump, JUMP), LAX) == "here"
    assert not jump.agent_asked and not node.agent_asked


def test_the_host_keys_behind_it(servers: tuple[Sshd, Sshd]) -> None:
    """An onboarding looks at the node's keys on the same way, and believes no other jump host."""
    jump, _ = servers
    known = jump.home.parent / ".ssh" / "known_hosts"
    known.write_text(line(jump, JUMP))
    assert offered(configured(servers), check) == [HOST]
    known.write_text("")
    with pytest.raises(NoHostKey, match="the jump host"):
        offered(configured(servers), check)


def test_it_is_not_taken_for_the_node() -> None:
    """What is advised about a node's key would be of no use."""
    error = handshake.RefusedJumpHost("the jump host j: No host key for j found in known_hosts")
    assert refusal(error) is None
