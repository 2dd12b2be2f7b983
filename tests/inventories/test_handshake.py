"""Connections of pyinfra to a server with several host keys: as OpenSSH judges the pinned ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from paramiko import BadHostKeyException, ECDSAKey, HostKeys, PKey, RSAKey
from pyinfra.connectors import ssh
from pyinfra.connectors.sshuserclient import client

from facts.gather import ask_each
from facts.probe import Readings, Section
from inventories import handshake
from tests.onboarding.serving import Sshd, serving

RSA, OTHER_RSA = RSAKey.generate(2048), RSAKey.generate(2048)
ECDSA, OTHER_ECDSA = ECDSAKey.generate(), ECDSAKey.generate()
LARGE_ECDSA = ECDSAKey.generate(bits=521)
MINE = ECDSAKey.generate()


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A server that lets this test in; pyinfra's own client comes back afterwards."""
    monkeypatch.setattr(ssh, "SSHClient", ssh.SSHClient)
    monkeypatch.setattr(client, "SSHClient", client.SSHClient)
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / "server"
    home.mkdir()
    handshake.install()
    with serving(home) as server:
        server.authorized = [MINE]
        yield server


def connected(sshd: Sshd, *pinned: PKey, hashed: bool = False) -> str:
    """Pin some keys, probe the server, and return its answer or the reason why there is none."""
    folder = sshd.home.parent
    name = f"[127.0.0.1]:{sshd.port}"
    name = HostKeys.hash_host(name) if hashed else name
    lines = [f"{name} {key.get_name()} {key.get_base64()}\n" for key in pinned]
    (folder / "known_hosts").write_text("".join(lines))
    MINE.write_private_key_file(str(folder / "key"))
    data = {
        "ssh_hostname": "127.0.0.1",
        "ssh_port": sshd.port,
        "ssh_user": "root",
        "ssh_key": str(folder / "key"),
        "ssh_known_hosts_file": str(folder / "known_hosts"),
        "ssh_paramiko_connect_kwargs": {"banner_timeout": 60},
    }
    (folder / "nodes.py").write_text(f"hosts = [('n', {data!r})]\n")
    client.get_host_keys.cache.clear()
    answer = ask_each(str(folder / "nodes.py"), (), [Section("one", "echo here")])["n"]
    return answer.sections["one"].require() if isinstance(answer, Readings) else answer


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("pinned", [RSA, ECDSA, LARGE_ECDSA], ids=PKey.get_name)
def test_the_pinned_kind_is_asked_for(sshd: Sshd, pinned: PKey, hashed: bool) -> None:
    """The server has other keys as well, which it would rather show."""
    sshd.keys = [ECDSA, LARGE_ECDSA, RSA]
    assert connected(sshd, pinned, hashed=hashed) == "here"


@pytest.mark.parametrize(
    "pinned",
    [(OTHER_ECDSA, ECDSA), (ECDSA, OTHER_ECDSA), (OTHER_RSA, RSA), (LARGE_ECDSA, RSA)],
    ids=["newer", "older", "rsa", "of a kind that is gone"],
)
def test_one_of_several_pinned_keys(sshd: Sshd, pinned: tuple[PKey, ...]) -> None:
    """OpenSSH takes each of them."""
    sshd.keys = [ECDSA, RSA]
    assert connected(sshd, *pinned) == "here"


@pytest.mark.parametrize(
    ("pinned", "offered"),
    [
        ((OTHER_ECDSA,), (ECDSA,)),
        ((OTHER_RSA,), (RSA, ECDSA)),
        ((LARGE_ECDSA,), (ECDSA,)),
        # OpenSSH prefers the kind of the first one, and refuses.
        ((OTHER_ECDSA, RSA), (ECDSA, RSA)),
        ((RSA, OTHER_ECDSA), (ECDSA, RSA)),
    ],
)
def test_a_changed_key(sshd: Sshd, pinned: tuple[PKey, ...], offered: tuple[PKey, ...]) -> None:
    """It is refused, whatever else is pinned or offered."""
    sshd.keys = list(offered)
    assert "does not match" in connected(sshd, *pinned)
    assert sshd.attempts == []


def test_an_unknown_server(sshd: Sshd) -> None:
    """Nothing is pinned: no key is taken."""
    assert "No host key for" in connected(sshd)
    assert sshd.attempts == []


def test_both_keys_are_named(sshd: Sshd, tmp_path: Path) -> None:
    """The refusal has the pinned key of the kind that was shown."""
    sshd.keys = [ECDSA]
    line = f"[127.0.0.1]:{sshd.port} {{}} {{}}\n"
    pins = [line.format(each.get_name(), each.get_base64()) for each in (RSA, OTHER_ECDSA)]
    (tmp_path / "pins").write_text("".join(pins))
    with pytest.raises(BadHostKeyException) as caught, handshake.Client() as asking:
        asking.connect(
            "127.0.0.1",
            port=sshd.port,
            _pyinfra_ssh_known_hosts_file=str(tmp_path / "pins"),
            _pyinfra_ssh_strict_host_key_checking="yes",
        )
    assert (caught.value.key, caught.value.expected_key) == (ECDSA, OTHER_ECDSA)
