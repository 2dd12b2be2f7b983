"""Jump hosts of ssh's configuration are believed as nodes are: by what known_hosts has of them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from paramiko import ECDSAKey, PKey

from gpu_node.facts.ask.gather import ask_each
from gpu_node.facts.probe.protocol import Readings, Section
from gpu_node.inventories.connection import connector
from gpu_node.inventories.connection.client import Client, RefusedJumpHost
from gpu_node.inventories.connection.offered import NoHostKey, offered
from gpu_node.inventories.connection.refused_keys import refusal
from gpu_node.inventories.connection.transport import BoundedTransport
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
    return probed(home, configured(servers, more))


def probed(home: Path, data: dict[str, Any]) -> str:
    """Probe a node with this host data; return its answer, or why there is none."""
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
    assert offered(configured(servers)) == [HOST]
    known.write_text("")
    with pytest.raises(NoHostKey, match="the jump host"):
        offered(configured(servers))


def test_it_is_not_taken_for_the_node() -> None:
    """What is advised about a node's key would be of no use."""
    error = RefusedJumpHost("the jump host j: No host key for j found in known_hosts")
    assert refusal(error) is None


@pytest.fixture
def second(servers: tuple[Sshd, Sshd]) -> Iterator[Sshd]:
    """One more jump host, of the node's side."""
    home = servers[0].home.parent
    (home / "second").mkdir()
    with serving(home / "second") as sshd:
        sshd.authorized, sshd.keys = [MINE], [OTHER]
        yield sshd


def by_both(servers: tuple[Sshd, Sshd], second: Sshd, known: str, is_nested: bool = False) -> str:
    """Probe the node through both jump hosts: named in one line, or the first by the second."""
    jump, _ = servers
    home = jump.home.parent
    (home / ".ssh" / "known_hosts").write_text(known)
    data = configured(servers)
    first, last = f"root@127.0.0.1:{jump.port}", "last"
    way = f"  ProxyJump {last}\n" if is_nested else f"  ProxyJump {first},{last}\n"
    also = f"  ProxyJump {first}\n" if is_nested else ""
    Path(data["ssh_config_file"]).write_text(
        f"Host node\n  HostName 127.0.0.1\n{way}"
        f"Host last\n  HostName 127.0.0.1\n  User root\n  Port {second.port}\n{also}"
        f"Host *\n  IdentityFile {home}/.ssh/id_ecdsa\n"
    )
    return probed(home, data)


@pytest.mark.parametrize("is_nested", [False, True])
def test_pins_hold_on_each_hop(servers: tuple[Sshd, Sshd], second: Sshd, is_nested: bool) -> None:
    """The second jump host is reached through the first, and believed by its own pin."""
    jump, node = servers
    error = by_both(servers, second, line(jump, JUMP), is_nested)
    assert "the jump host last: No host key for [127.0.0.1]" in error
    assert second.attempts == [] and node.attempts == []
    both = line(jump, JUMP) + line(second, OTHER)
    assert by_both(servers, second, both, is_nested) == "here"
    assert jump.forwarded[-1] == ("127.0.0.1", second.port)
    assert second.forwarded == [("127.0.0.1", node.port)]


@pytest.mark.parametrize("place", ["jump", "second"])
def test_limits_hold_on_each_hop(servers: tuple[Sshd, Sshd], second: Sshd, place: str) -> None:
    """Lines without end before the version of SSH, from either jump host."""
    jump, node = servers

    def endless(connection: socket.socket) -> None:
        def send() -> None:
            with suppress(OSError), connection:
                while True:
                    connection.sendall(b"x\r\n" * 4096)

        threading.Thread(target=send, daemon=True).start()

    hostile = jump if place == "jump" else second
    hostile.instead = endless
    began = time.monotonic()
    error = by_both(servers, second, line(jump, JUMP) + line(second, OTHER))
    assert f"the jump host {'127.0.0.1' if place == 'jump' else 'last'}: " in error
    assert time.monotonic() - began < 8 and node.attempts == []


def test_the_time_for_a_login_counts_the_hops(
    servers: tuple[Sshd, Sshd], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A jump host that says nothing is cut as a node is."""
    jump, _ = servers
    held: list[socket.socket] = []
    jump.instead = held.append
    monkeypatch.setattr(connector, "CONNECT_SECONDS", 1)
    began = time.monotonic()
    assert "no login within 1 s" in connected(servers, line(jump, JUMP))
    assert time.monotonic() - began < 8 and held
    for each in held:
        each.close()


def test_each_hop_is_a_client_of_ours(servers: tuple[Sshd, Sshd]) -> None:
    """Its connection has the limits; all of them end together."""
    jump, _ = servers
    data = configured(servers)
    (jump.home.parent / ".ssh" / "known_hosts").write_text(line(jump, JUMP))
    asking = Client()
    asking.connect(
        "node",
        port=data["ssh_port"],
        username="root",
        _pyinfra_ssh_config_file=data["ssh_config_file"],
        _pyinfra_ssh_known_hosts_file=data["ssh_known_hosts_file"],
    )
    (hop,) = asking._hops
    made = [each.get_transport() for each in (asking, hop)]
    assert all(isinstance(each, BoundedTransport) for each in made)
    asking.close()
    assert not any(each.is_active() for each in made if each)


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("ProxyJump node", "more than 8 jump hosts, or one leads to itself"),
        ("ProxyJump nowhere.invalid", "the jump host nowhere.invalid: "),
        ("ProxyJump root@127.0.0.1:1", "the jump host 127.0.0.1: "),
    ],
)
def test_a_jump_host_that_is_no_way(servers: tuple[Sshd, Sshd], way: str, says: str) -> None:
    """It is named, with the reason and the next step."""
    data = configured(servers)
    home = servers[0].home.parent
    Path(data["ssh_config_file"]).write_text(f"Host node\n  HostName 127.0.0.1\n  {way}\n")
    assert says in probed(home, data)


def test_no_jump_host(servers: tuple[Sshd, Sshd]) -> None:
    """`none` is the word for it: no host of that name is looked for."""
    jump, _ = servers
    home = jump.home.parent
    data = configured(servers) | {"ssh_key": str(home / ".ssh" / "id_ecdsa")}
    Path(data["ssh_config_file"]).write_text("Host node\n  HostName 127.0.0.1\n  ProxyJump none\n")
    assert probed(home, data) == "here" and jump.attempts == []
