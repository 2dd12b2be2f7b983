"""Connections of pyinfra to a server with several host keys: as OpenSSH judges the pinned ones."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from paramiko import BadHostKeyException, ECDSAKey, HostKeys, PKey, RSAKey, SSHException

from gpu_node.inventories.connection import handshake
from gpu_node.inventories.connection.client import Client
from tests.inventories.conftest import ask
from tests.onboarding.serving import Sshd

RSA, OTHER_RSA = RSAKey.generate(2048), RSAKey.generate(2048)
ECDSA, OTHER_ECDSA = ECDSAKey.generate(), ECDSAKey.generate()
LARGE_ECDSA = ECDSAKey.generate(bits=521)


def connected(sshd: Sshd, *pinned: PKey, hashed: bool = False) -> str:
    """Pin some keys, probe the server, and return its answer or the reason why there is none."""
    name = f"[127.0.0.1]:{sshd.port}"
    name = HostKeys.hash_host(name) if hashed else name
    lines = [f"{name} {key.get_name()} {key.get_base64()}\n" for key in pinned]
    known_hosts = "".join(lines).encode()
    return ask(sshd, known_hosts, ssh_paramiko_connect_kwargs={"banner_timeout": 60})


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
    assert "its host key has changed" in connected(sshd, *pinned)
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
    with pytest.raises(BadHostKeyException) as caught, Client() as asking:
        asking.connect(
            "127.0.0.1",
            port=sshd.port,
            _pyinfra_ssh_known_hosts_file=str(tmp_path / "pins"),
            _pyinfra_ssh_strict_host_key_checking="yes",
        )
    assert (caught.value.key, caught.value.expected_key) == (ECDSA, OTHER_ECDSA)


@contextmanager
def relayed(port: int, seconds: float) -> Iterator[int]:
    """Give a port that hands a server's version on at once, and the rest `seconds` later."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_relay, args=(listening, port, seconds), daemon=True).start()
        yield listening.getsockname()[1]


def _relay(listening: socket.socket, port: int, seconds: float) -> None:
    ours, _ = listening.accept()
    with ours, socket.create_connection(("127.0.0.1", port)) as theirs, suppress(OSError):
        version, _, rest = theirs.recv(65536).partition(b"\n")
        ours.sendall(version + b"\n")
        time.sleep(seconds)
        ours.sendall(rest)
        both = {ours: theirs, theirs: ours}
        while True:
            for each in select.select(both, (), ())[0]:
                data = each.recv(65536)
                if not data:
                    return
                both[each].sendall(data)


@pytest.mark.parametrize(("banner", "ends"), [(20, True), (2, False)])
def test_a_busy_node_that_has_sent_its_version(sshd: Sshd, banner: float, ends: bool) -> None:
    """It has as long as for its version, not only pyinfra's limit on TCP."""
    with relayed(sshd.port, 3) as port:
        made = handshake.PinnedFirst(socket.create_connection(("127.0.0.1", port)))
        made.banner_timeout = banner
        try:
            if ends:
                made.start_client(timeout=1)
                assert made.get_remote_server_key() is not None
            else:
                with pytest.raises(SSHException, match="no SSH handshake within 2 s"):
                    made.start_client(timeout=1)
        finally:
            made.close()
