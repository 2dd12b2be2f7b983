"""First contact: whose host key is believed, and what then stands in known_hosts."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import closing
from pathlib import Path

import pytest
from paramiko import ECDSAKey, PKey, RSAKey

from gpu_node.inventories.connection import offered as asking
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust.host_keys import (
    Server,
    choose,
    offered,
    pin,
    pinned,
    unpin,
    unreachable,
)
from tests.onboarding.serving import Sshd


def line(sshd: Sshd, key: PKey | None = None) -> str:
    """What pins a key of the server."""
    text = f"{key.get_name()} {key.get_base64()}" if key else sshd.host_key
    return f"[127.0.0.1]:{sshd.port} {text}\n"


def yes(text: str) -> bool:
    """What a trusting user answers."""
    return True


def refusal(server: Server, keys: list[PKey], accept: str | None = None) -> str:
    """Why no key is believed, without a terminal."""
    before = server.known_hosts.read_bytes() if server.known_hosts.exists() else None
    with pytest.raises(ContactError) as caught:
        choose(server, keys, accept, None)
    after = server.known_hosts.read_bytes() if server.known_hosts.exists() else None
    assert before == after
    return str(caught.value)


def test_an_unknown_key_is_shown_and_confirmed(sshd: Sshd) -> None:
    """The question has the fingerprint and how to compare it; nothing is pinned by asking."""
    server = sshd.server()
    asked: list[str] = []

    def confirm(text: str) -> bool:
        asked.append(text)
        return True

    assert choose(server, offered(server), None, confirm) == sshd.host_key
    (question,) = asked
    assert sshd.keys[0].fingerprint in question
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in question
    assert not server.known_hosts.exists()
    with pytest.raises(ContactError, match=r"found no confirmation of .* \(nothing was changed"):
        choose(server, offered(server), None, lambda text: False)


def test_without_a_terminal(sshd: Sshd) -> None:
    """It stops with the fingerprint and the option; given with that, it goes on."""
    server = sshd.server()
    keys = offered(server)
    offered_key = keys[0].fingerprint
    assert f"--accept-host-key {server.name}={offered_key}" in refusal(server, keys)
    assert choose(server, keys, offered_key, None) == sshd.host_key
    error = refusal(server, keys, "SHA256:other")
    assert "found SHA256:other (not one of" in error and offered_key in error


def test_a_pinned_key_needs_no_word(sshd: Sshd) -> None:
    """By its address, or by its name."""
    server = sshd.server()
    for text in (line(sshd), line(sshd).replace("127.0.0.1", "n")):
        server.known_hosts.write_text(text)
        assert pinned(server) == [sshd.host_key]
        assert choose(server, offered(server), None, None) == sshd.host_key


def test_a_pinned_key_needs_no_fingerprint(sshd: Sshd) -> None:
    """One of another server is given with it; one that it offers as well is the one."""
    sshd.keys.append(RSAKey.generate(2048))
    server = sshd.server()
    keys = offered(server)
    server.known_hosts.write_text(line(sshd))
    assert choose(server, keys, "SHA256:other", None) == sshd.host_key
    assert choose(server, keys, sshd.keys[1].fingerprint, None).startswith("ssh-rsa ")
    server.known_hosts.write_text(line(sshd, ECDSAKey.generate()))
    assert "found SHA256:other (not one of" in refusal(server, keys, "SHA256:other")


def test_one_of_two_pinned_keys_of_a_kind(sshd: Sshd) -> None:
    """OpenSSH takes either; so does a first contact."""
    server = sshd.server()
    keys = offered(server)
    for old in (ECDSAKey.generate(), RSAKey.generate(2048)):
        server.known_hosts.write_text(line(sshd, old) + line(sshd))
        assert choose(server, keys, None, None) == sshd.host_key


@pytest.mark.parametrize("pattern", ["[127.0.0.1]:{port}", "[n]:{port}", "*", "nas,[127.*"])
def test_a_revoked_key(sshd: Sshd, pattern: str) -> None:
    """It is refused: pinned, given beforehand, or confirmed at the question."""
    server = sshd.server()
    keys = offered(server)
    line_of_it = f"@revoked {pattern.format(port=sshd.port)} {sshd.host_key}\n"
    for text in (line_of_it, line(sshd) + line_of_it):
        server.known_hosts.write_text(text)
        for accept in (None, keys[0].fingerprint, "SHA256:other"):
            error = refusal(server, keys, accept)
            assert f"is revoked by a @revoked line of {server.known_hosts}" in error
            assert keys[0].fingerprint in error
        with pytest.raises(ContactError, match="is revoked"):
            choose(server, keys, None, yes)


def test_one_of_two_keys_is_revoked(sshd: Sshd) -> None:
    """The other one will do: pinned, or confirmed; the first one is not even shown."""
    sshd.keys.append(RSAKey.generate(2048))
    server = sshd.server()
    keys = offered(server)
    barred = f"@revoked * {sshd.host_key}\n"
    server.known_hosts.write_text(barred + line(sshd, sshd.keys[1]))
    assert choose(server, keys, None, None).startswith("ssh-rsa ")
    assert "is revoked" in refusal(server, keys, keys[0].fingerprint)
    server.known_hosts.write_text(barred)
    assert keys[0].fingerprint not in refusal(server, keys)
    assert choose(server, keys, None, yes).startswith("ssh-rsa ")


@pytest.mark.parametrize("kind", [ECDSAKey.generate, lambda: RSAKey.generate(2048)])
def test_a_changed_key(sshd: Sshd, kind: type[ECDSAKey]) -> None:
    """Both fingerprints and the way on, also at a terminal; the given one is then pinned."""
    server = sshd.server()
    old = kind()
    server.known_hosts.write_text(line(sshd, old))
    keys = offered(server)
    with pytest.raises(ContactError) as caught:
        choose(server, keys, None, yes)
    for each in (old.fingerprint, keys[0].fingerprint, "gpu-node host-key INVENTORY n --accept"):
        assert each in str(caught.value)
    chosen = choose(server, keys, keys[0].fingerprint, None)
    assert pin(server, chosen, keys)
    assert server.known_hosts.read_text() == line(sshd)


def test_one_of_two_keys_is_pinned(sshd: Sshd) -> None:
    """The first kind is the one to pin; where the other one is pinned, that will do."""
    sshd.keys.append(RSAKey.generate(2048))
    server = sshd.server()
    keys = offered(server)
    assert [key.get_name() for key in keys] == ["ecdsa-sha2-nistp256", "ssh-rsa"]
    assert choose(server, keys, None, yes) == sshd.host_key
    server.known_hosts.write_text(line(sshd, sshd.keys[1]))
    assert choose(server, keys, None, None).startswith("ssh-rsa ")
    assert not pin(server, choose(server, keys, None, None), keys)
    server.known_hosts.write_text(line(sshd, sshd.keys[1]) + line(sshd, ECDSAKey.generate()))
    assert "has changed" in refusal(server, keys)


@pytest.mark.parametrize("before", ["", "nas ssh-rsa AAAA\n", "# z\xfc\r\n\nnas ssh-rsa AAAA"])
def test_pinned_and_forgotten(sshd: Sshd, before: str) -> None:
    """One line more, with the mode that it had; and then the same bytes again."""
    server = sshd.server()
    server.known_hosts.write_bytes(before.encode("latin-1"))
    server.known_hosts.chmod(0o640)
    keys = offered(server)
    assert pin(server, sshd.host_key, keys)
    assert not pin(server, sshd.host_key, keys)
    assert pinned(server) == [sshd.host_key]
    assert sorted(server.known_hosts.read_bytes().decode("latin-1").splitlines()) == sorted(
        [*before.splitlines(), line(sshd).strip()]
    )
    assert unpin(server.known_hosts, *server.lookups)
    assert not unpin(server.known_hosts, *server.lookups)
    assert server.known_hosts.read_bytes().decode("latin-1") == before
    assert server.known_hosts.stat().st_mode & 0o777 == 0o640


def test_a_file_that_was_not_there(sshd: Sshd, tmp_path: Path) -> None:
    """It is made with its folder, closed to others."""
    file = tmp_path / "new" / ".ssh" / "known_hosts"
    server = sshd.server(known_hosts=file)
    assert not unpin(file, *server.lookups)
    assert not file.parent.exists()
    assert pin(server, sshd.host_key, sshd.keys)
    assert file.read_text() == line(sshd)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_that_cannot_be_written(sshd: Sshd, tmp_path: Path) -> None:
    """The error has the reason."""
    (tmp_path / "file").touch()
    server = sshd.server(known_hosts=tmp_path / "file" / "known_hosts")
    with pytest.raises(ContactError, match=r"\(cannot be written; nothing was changed"):
        pin(server, sshd.host_key, sshd.keys)
    with pytest.raises(ContactError, match="cannot be read"):
        pinned(sshd.server(known_hosts=tmp_path))


def test_connection_refused(sshd: Sshd) -> None:
    """The error names what to check."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with pytest.raises(
        ContactError, match=f"connection refused at 127.0.0.1:{port}; next: is sshd"
    ):
        offered(sshd.server(port=port))


def test_a_name_that_is_none(sshd: Sshd) -> None:
    """Its own error, by any resolver."""
    with pytest.raises(ContactError, match="this machine cannot resolve it"):
        offered(sshd.server(address="no-such-host.invalid"))


def test_a_server_that_hangs_up(sshd: Sshd) -> None:
    """At once, as tcp wrappers and a full sshd do."""
    sshd.instead = lambda client: client.close()
    with pytest.raises(ContactError, match="was closed before a login"):
        offered(sshd.server())


def test_a_server_that_is_silent(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given its seconds, and no more."""
    held: list[socket.socket] = []
    sshd.instead = held.append
    monkeypatch.setattr(asking, "SECONDS", 0.5)
    problem = (
        r"^found no answer of the sshd at 127.0.0.1:.* within 10 s \(it accepts "
        r"connections\); next: "
    )
    with pytest.raises(ContactError, match=problem):
        offered(sshd.server())
    for each in held:
        each.close()


def test_a_connection_that_does_not_come_about(sshd: Sshd) -> None:
    """The connection was not accepted: that is not a silent sshd."""
    error = unreachable(sshd.server(port=22), TimeoutError("timed out"))
    assert error.startswith(
        "found no answer at 127.0.0.1:22 within 10 s (timed out); next: is it switched"
    )


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EINVAL])
def test_no_way_to_a_server(sshd: Sshd, number: int) -> None:
    """The duration is in the error only after a timeout."""
    cause = OSError(number, os.strerror(number))
    problem = unreachable(sshd.server(address="fe80::1", port=22), cause)
    assert problem.startswith(f"found no way to [fe80::1]:22 ({os.strerror(number)}); next: ")
    assert "10 s" not in problem


@pytest.mark.parametrize("port", [22, 2222])
def test_another_port_is_an_option(sshd: Sshd, port: int) -> None:
    """A port that was given may be mistyped."""
    error = unreachable(sshd.server(port=port), ConnectionRefusedError())
    then = "is sshd running there, or on another port?"
    assert error == f"found connection refused at 127.0.0.1:{port}; next: {then}"


def test_another_protocol(sshd: Sshd) -> None:
    """A web server's port."""

    def answer(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        client.close()

    sshd.instead = answer
    with pytest.raises(ContactError, match="it is not sshd"):
        offered(sshd.server())
