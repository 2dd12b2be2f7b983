"""`gpu-node host-key` against a server of the test itself: what is shown, what is pinned when."""

from __future__ import annotations

import shlex
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from paramiko import ECDSAKey, PKey, RSAKey, ServerInterface, SSHException, Transport

from gpu_node.cli.host_key import host_key
from tests.commands import run

INVENTORY = 'hosts = [("n", {data!r})]\n'


@dataclass
class Server:
    """An sshd as far as its host keys; it accepts no login."""

    port: int
    keys: list[PKey]


def _serve(listener: socket.socket, server: Server) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            transport = Transport(client)
            for key in server.keys:
                transport.add_server_key(key)
            with suppress(SSHException, EOFError):
                transport.start_server(server=ServerInterface())


@pytest.fixture
def server() -> Iterator[Server]:
    """It answers until the test is over."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        server = Server(listener.getsockname()[1], [ECDSAKey.generate()])
        threading.Thread(target=_serve, args=(listener, server), daemon=True).start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def pins(tmp_path: Path, server: Server) -> Path:
    """The known_hosts of an inventory that names the server; a user's line is in it."""
    pins = tmp_path / "known_hosts"
    pins.write_text("# zhang\r\nnas ssh-rsa AAAA")
    data = {"ssh_hostname": "127.0.0.1", "ssh_port": server.port, "ssh_known_hosts_file": str(pins)}
    (tmp_path / "nodes.py").write_text(INVENTORY.format(data=data))
    return pins


def asked(pins: Path, *words: str) -> Result:
    """The command's end."""
    path = str(pins.with_name("nodes.py"))
    return CliRunner().invoke(host_key, [path, *(words or ("n",))], standalone_mode=False)


def line(server: Server) -> str:
    """The line that pins the server's key."""
    (key,) = server.keys
    return f"[127.0.0.1]:{server.port} {key.get_name()} {key.get_base64()}\n"


def test_an_unknown_key_is_shown_and_accepted(pins: Path, server: Server) -> None:
    """Not pinned: 2. Accepted by its fingerprint: pinned. Then the same."""
    before = pins.read_text()
    shown = asked(pins)
    assert shown.return_value == 2
    assert "  none\n" in shown.stdout and server.keys[0].fingerprint in shown.stdout
    inventory = shlex.quote(str(pins.with_name("nodes.py")))
    accept = f"gpu-node host-key {inventory} n --accept {server.keys[0].fingerprint}"
    assert shown.stderr.startswith("next: compare it with what ssh-keygen ")
    assert shown.stderr.endswith(f" shows on its console; then: {accept}\n")
    assert pins.read_text() == before
    assert asked(pins, "n", "--accept", server.keys[0].fingerprint).return_value == 0
    assert pins.read_bytes().decode() == f"# zhang\r\n{line(server)}nas ssh-rsa AAAA"
    assert asked(pins).return_value == 0
    assert "pinned already" in asked(pins, "n", "--accept", server.keys[0].fingerprint).stdout


def test_a_changed_key(pins: Path, server: Server) -> None:
    """Both are shown; the fingerprint of the pinned one is not taken for that of the new one."""
    pins.write_text(line(server))
    old = server.keys[0].fingerprint
    server.keys = [ECDSAKey.generate()]
    shown = asked(pins)
    assert shown.return_value == 2
    assert old in shown.stdout and server.keys[0].fingerprint in shown.stdout
    refused = asked(pins, "n", "--accept", old)
    assert "nothing was changed" in str(refused.exception)
    assert "next: see which it is on its console: ssh-keygen" in str(refused.exception)
    assert server.keys[0].get_base64() not in pins.read_text()
    assert asked(pins, "n", "--accept", server.keys[0].fingerprint).return_value == 0
    assert pins.read_text() == line(server)


def test_no_answer(pins: Path, tmp_path: Path) -> None:
    """The error has the reason, whatever was pinned."""
    inventory = tmp_path / "nodes.py"
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    data = {"ssh_hostname": "127.0.0.1", "ssh_port": port, "ssh_known_hosts_file": str(pins)}
    inventory.write_text(INVENTORY.format(data=data))
    assert "refused" in str(asked(pins).exception)


def test_a_node_that_is_not_there(pins: Path) -> None:
    """The error lists the names; no node is contacted."""
    assert "found 'm' (no host of" in str(asked(pins, "m").exception)


@pytest.mark.parametrize(
    ("pinned", "code"),
    [([1], 0), ([2], 0), ([0, 1], 0), ([3], 2), ([3, 0], 0), ([3, 1], 2), ([4], 2), ([4, 0], 0)],
)
def test_keys_of_several_kinds(pins: Path, server: Server, pinned: list[int], code: int) -> None:
    """The pinned kind decides, as for OpenSSH; the server has the first three keys."""
    keys = [ECDSAKey.generate(), ECDSAKey.generate(bits=521), RSAKey.generate(2048)]
    keys += [ECDSAKey.generate(), ECDSAKey.generate(bits=384)]
    server.keys = keys[:3]
    name = f"[127.0.0.1]:{server.port}"
    lines = [f"{name} {keys[n].get_name()} {keys[n].get_base64()}\n" for n in pinned]
    pins.write_text("".join(lines))
    shown = asked(pins)
    assert shown.return_value == code
    offered = shown.stdout.partition("offered at")[2]
    assert [key.fingerprint in offered for key in keys] == [True, True, True, False, False]


def test_a_revoked_key(pins: Path, server: Server) -> None:
    """It is shown as one, is never the same, and is not pinned."""
    (key,) = server.keys
    revoked = f"@revoked 127.0.0.1 {key.get_name()} {key.get_base64()}\n"
    pins.write_text(f"{line(server)}{revoked}")
    before = pins.read_bytes()
    done = asked(pins)
    assert done.return_value == 2
    assert done.stdout.count(f"{key.fingerprint} (revoked)") == 2
    refused = asked(pins, "n", "--accept", key.fingerprint)
    assert "(revoked by a @revoked line" in str(refused.exception)
    assert pins.read_bytes() == before


def test_an_alias_of_ssh_config(pins: Path, server: Server) -> None:
    """What is pinned is what a connection looks up: the host and the port of ssh_config."""
    config = pins.with_name("config")
    config.write_text(f"Host gpu7\n  HostName 127.0.0.1\n  Port {server.port}\n")
    data = {"ssh_hostname": "gpu7", "ssh_config_file": str(config)}
    data["ssh_known_hosts_file"] = str(pins)
    pins.with_name("nodes.py").write_text(INVENTORY.format(data=data))
    assert asked(pins, "n", "--accept", server.keys[0].fingerprint).return_value == 0
    assert line(server) in pins.read_text()
    assert asked(pins).return_value == 0


def test_a_host_that_no_inventory_names(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report has the command that pins its key; then the key is no problem any more."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(
        f"Host gpu7\n  HostName 127.0.0.1\n  Port {server.port}\n"
    )
    fingerprint = server.keys[0].fingerprint
    for command in (["drift"], ["deploy", "--yes"], ["deploy", "--dry"], ["hostfile"]):
        ended = run("gpu-node", command[0], "gpu7", *command[1:])
        text = " ".join(f"{ended.out} {ended.err}".split())
        assert f"{fingerprint} is not pinned" in text, text
        words = f"gpu-node host-key gpu7 gpu7 --accept {fingerprint}"
        assert words in text, text
    assert run(*words.split()).code == 0
    assert line(server) in (tmp_path / ".ssh/known_hosts").read_text()
    assert "host-key" not in run("gpu-node", "drift", "gpu7").out


@pytest.mark.parametrize("port", ["abc", "0x16", "70000", "-1"])
def test_a_bad_port_in_ssh_config(pins: Path, port: str) -> None:
    """The error has the file, the key and the value."""
    config = pins.with_name(f"config{port}")
    config.write_text(f"Host gpu7\n  Port {port}\n")
    data = {"ssh_hostname": "gpu7", "ssh_config_file": str(config)}
    data["ssh_known_hosts_file"] = str(pins)
    pins.with_name("nodes.py").write_text(INVENTORY.format(data=data))
    wanted = f"{config}: Port: found {port!r} (for gpu7); allowed: a number of at most 65535"
    assert wanted in str(asked(pins).exception)
