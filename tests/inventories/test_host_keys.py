"""known_hosts as OpenSSH reads it: what is pinned, signed or revoked for a server, by its name."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paramiko import ECDSAKey, HostKeys, Message, PKey, RSAKey
from paramiko.pkey import PublicBlob

from gpu_node.inventories.connection.certificates import NotCertified, require_certified
from tests.inventories.conftest import ask
from tests.onboarding.serving import Sshd

HOST, OTHER = ECDSAKey.generate(), ECDSAKey.generate()
RSA = RSAKey.generate(2048)


class Certified:
    """A host key that a server shows with its certificate."""

    def __init__(self, key: PKey, certificate: str) -> None:
        self.key = key
        self.name = certificate.split()[0]
        key.load_certificate(certificate)
        assert key.public_blob is not None
        self.blob = key.public_blob.key_blob

    def get_name(self) -> str:
        """Return the name of the algorithm."""
        return self.name

    def asbytes(self) -> bytes:
        """Return what is sent."""
        return self.blob

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> Message:
        """Sign with the key."""
        signed: Message = self.key.sign_ssh_data(data)
        return signed


@pytest.fixture
def sshd(sshd: Sshd) -> Sshd:
    """A server of one host key."""
    sshd.keys = [HOST]
    return sshd


def text(key: PKey) -> str:
    """Return a key as known_hosts has it."""
    return f"{key.get_name()} {key.get_base64()}"


def connected(sshd: Sshd, *lines: str, **more: Any) -> str:
    """Write known_hosts, probe the server, and return its answer or why there is none.

    NAME stands for what a connection looks up.
    """
    name = f"[127.0.0.1]:{sshd.port}"
    known = "".join(f"{line}\n" for line in lines)
    known = known.replace("HASHED", HostKeys.hash_host(name)).replace("NAME", name)
    return ask(sshd, known.replace("PORT", str(sshd.port)).encode("latin-1"), **more)


PINNED = [
    "NAME KEY",
    "HASHED KEY",
    "other,NAME KEY a comment",
    "* KEY",
    "[127.0.*]:* KEY",
    "[127.0.0.?]:PORT KEY",
    "  NAME\tKEY\r",
    "# a comment in latin-1: \xfc\nNAME KEY \xfc",
    "@unknown NAME OTHER\nNAME KEY",
]


@pytest.mark.parametrize("lines", PINNED)
def test_pinned(sshd: Sshd, lines: str) -> None:
    """By each way in which known_hosts names a server."""
    assert connected(sshd, lines.replace("KEY", text(HOST)).replace("OTHER", text(OTHER))) == "here"


NOT_PINNED = [
    "127.0.0.1 KEY",  # of the usual port
    "*,!NAME KEY",
    "!NAME,* KEY",
    "*,!*127.0.0.1* KEY",
    "other KEY",
    "#NAME KEY",
    "@cert-authority NAME KEY",
    "@unknown NAME KEY",
]


@pytest.mark.parametrize("line", NOT_PINNED)
def test_not_pinned(sshd: Sshd, line: str) -> None:
    """No key is accepted, and no login happens."""
    assert "No host key for" in connected(sshd, line.replace("KEY", text(HOST)))
    assert sshd.attempts == []


REVOKED = [
    "@revoked NAME KEY",
    "@revoked * KEY",
    "@revoked HASHED KEY",
    "@revoked 127.0.0.1 KEY",
    "\t@revoked  *,!other\tKEY lost in 2024",
]


@pytest.mark.parametrize("line", REVOKED)
@pytest.mark.parametrize("pinned", ["first", "last"])
def test_a_revoked_key(sshd: Sshd, line: str, pinned: str) -> None:
    """It is refused although it is pinned, and the reason says so."""
    lines = [f"NAME {text(HOST)}", f"NAME {text(RSA)}", line.replace("KEY", text(HOST))]
    message = connected(sshd, *(lines if pinned == "first" else reversed(lines)))
    assert "is revoked by a @revoked line" in message and HOST.fingerprint in message
    assert sshd.attempts == []


def test_a_revoked_key_alone(sshd: Sshd) -> None:
    """Nothing else is pinned: it is unknown at best."""
    lines = [f"NAME {text(HOST)}", f"@revoked * {text(HOST)}"]
    assert connected(sshd, *lines) != "here"
    assert sshd.attempts == []


def test_revoked_for_the_whole_machine(sshd: Sshd) -> None:
    """The system's file revokes a key for all users; pyinfra ignores what it pins."""
    (sshd.home.parent / "ssh_known_hosts").write_text(f"@revoked * {text(HOST)}\n")
    assert connected(sshd, f"NAME {text(HOST)}", f"NAME {text(RSA)}") != "here"
    (sshd.home.parent / "ssh_known_hosts").write_text(f"* {text(HOST)}\n")
    assert "No host key for" in connected(sshd)


def test_revoked_for_others(sshd: Sshd) -> None:
    """The control."""
    line = f"@revoked other,!NAME,* {text(HOST)}"
    assert connected(sshd, f"NAME {text(HOST)}", line.replace(",*", "")) == "here"
    assert connected(sshd, f"NAME {text(HOST)}", f"@revoked * {text(OTHER)}") == "here"


def test_a_file_that_cannot_be_read(sshd: Sshd) -> None:
    """It may revoke what is shown."""
    (sshd.home.parent / "ssh_known_hosts").mkdir()
    assert "cannot read" in connected(sshd, f"NAME {text(HOST)}")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the private key of an authority."""
    file = tmp_path_factory.mktemp("ca") / "ca"
    keygen("-t", "ed25519", "-N", "", "-f", str(file))
    return file


def keygen(*words: str) -> None:
    """Run ssh-keygen."""
    subprocess.run(["ssh-keygen", "-q", *words], check=True, stdin=subprocess.DEVNULL)


def certified(authority: Path, key: PKey, *words: str) -> Certified:
    """Return a host key with a certificate; `words` are ssh-keygen's."""
    file = authority.with_name("host.pub")
    file.write_text(f"{text(key)}\n")
    keygen("-s", str(authority), "-I", "id", *words, str(file))
    return Certified(key, authority.with_name("host-cert.pub").read_text())


def public(authority: Path) -> str:
    """Return the authority's public key."""
    return " ".join(authority.with_name("ca.pub").read_text().split()[:2])


def public_half(key: PKey) -> PKey:
    """Return a key as a client knows it."""
    return PKey.from_type_string(key.get_name(), key.asbytes())


HOST_OF = ("-h", "-n", "127.0.0.1,n")


def test_a_certificate(sshd: Sshd, authority: Path) -> None:
    """A server that an authority has signed needs no pin."""
    sshd.keys = [certified(authority, ECDSAKey.generate(), *HOST_OF)]  # type: ignore[list-item]
    assert connected(sshd, f"@cert-authority *127.0.0.1* {public(authority)}") == "here"


@pytest.mark.parametrize(
    ("principal", "is_meant"),
    [
        ("*.cluster.local", True),
        ("gpu-??.cluster.*", True),
        ("*", True),
        ("**-01.*.local*", True),
        ("*.CLUSTER.local", True),
        ("gpu-?.cluster.local", False),
        ("*.cluster.loca", False),
        ("cluster.local", False),
        ("gpu-0[1].cluster.local", False),
        ("!*.other", False),
    ],
)
def test_a_certificate_for_a_pattern(authority: Path, principal: str, is_meant: bool) -> None:
    """Principals have the wildcards * and ?, as in ssh; nothing else in them is special."""
    key = certified(authority, ECDSAKey.generate(), "-h", "-n", f"other,{principal}").key
    ca = public_half(PKey.from_path(authority))
    if is_meant:
        require_certified(key, [ca], "gpu-01.cluster.local")
    else:
        with pytest.raises(NotCertified, match=r"not for gpu-01\.cluster\.local"):
            require_certified(key, [ca], "gpu-01.cluster.local")


def test_a_principal_that_backtracks(authority: Path) -> None:
    """It is judged in a moment: 30 stars would keep a regular expression for years."""
    principal = "*a" * 30 + "b"
    key = certified(authority, ECDSAKey.generate(), "-h", "-n", principal).key
    begun = time.process_time()
    with pytest.raises(NotCertified, match="not for aaa"):
        require_certified(key, [public_half(PKey.from_path(authority))], "a" * 250)
    assert time.process_time() - begun < 5


NOT_CERTIFIED = {
    "a user's certificate": (("-n", "127.0.0.1"), "it is a user's certificate"),
    "another name": (("-h", "-n", "192.0.2.1"), "it is for 192.0.2.1"),
    "no longer valid": (
        ("-h", "-n", "127.0.0.1", "-V", "20200101:20200102"),
        "it is not valid now",
    ),
    "not valid yet": (("-h", "-n", "127.0.0.1", "-V", "20900101:20910101"), "it is not valid now"),
}


@pytest.mark.parametrize("name", NOT_CERTIFIED)
def test_what_a_certificate_does_not_say(sshd: Sshd, authority: Path, name: str) -> None:
    """The authority has signed it, and not for this."""
    words, why = NOT_CERTIFIED[name]
    sshd.keys = [certified(authority, ECDSAKey.generate(), *words)]  # type: ignore[list-item]
    message = connected(sshd, f"@cert-authority * {public(authority)}")
    assert "No host key for" in message and why in message
    assert sshd.attempts == []


def test_another_authority(sshd: Sshd, authority: Path) -> None:
    """Another authority has signed it than the trusted one."""
    sshd.keys = [certified(authority, ECDSAKey.generate(), *HOST_OF)]  # type: ignore[list-item]
    assert "no @cert-authority line names" in connected(sshd, f"@cert-authority * {text(OTHER)}")
    line = f"@cert-authority other {public(authority)}"
    assert "No host key for" in connected(sshd, line)
    assert sshd.attempts == []


def test_a_forged_certificate(sshd: Sshd, authority: Path) -> None:
    """One byte is another."""
    key = certified(authority, ECDSAKey.generate(), *HOST_OF)
    at = key.blob.index(b"127.0.0.1")
    key.blob = key.blob[:at] + b"127.0.0.2" + key.blob[at + 9 :]
    sshd.keys = [key]  # type: ignore[list-item]
    message = connected(sshd, f"@cert-authority * {public(authority)}")
    assert "its signature is wrong" in message
    assert sshd.attempts == []


def test_a_revoked_authority(sshd: Sshd, authority: Path) -> None:
    """What it has signed is refused, also where the key itself is pinned."""
    key = certified(authority, ECDSAKey.generate(), *HOST_OF)
    sshd.keys = [key]  # type: ignore[list-item]
    lines = [f"@cert-authority * {public(authority)}", f"@revoked * {public(authority)}"]
    message = connected(sshd, *lines, f"NAME {text(key.key)}")
    assert "is revoked by a @revoked line" in message
    assert sshd.attempts == []


KINDS = ("ed25519", "ecdsa", "rsa")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A key of each kind."""
    folder = tmp_path_factory.mktemp("keys")
    for kind in KINDS:
        keygen("-t", kind, "-N", "", "-f", str(folder / kind))
    return {kind: folder / kind for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("signer", KINDS)
def test_kinds_of_certificates(keys: dict[str, Path], kind: str, signer: str) -> None:
    """Each kind of key, signed by each kind of authority; RSA by SHA-1 is refused."""
    file, certificate = (keys[kind].with_name(f"{kind}{end}") for end in (".pub", "-cert.pub"))
    keygen("-s", str(keys[signer]), "-I", "id", *HOST_OF, str(file))
    key, ca = (public_half(PKey.from_path(keys[name])) for name in (kind, signer))
    key.load_certificate(certificate.read_text())
    require_certified(key, [ca], "127.0.0.1")
    with pytest.raises(NotCertified, match="not for other"):
        require_certified(key, [ca], "other")
    if signer == "rsa":
        keygen("-t", "ssh-rsa", "-s", str(keys[signer]), "-I", "id", *HOST_OF, str(file))
        key.load_certificate(certificate.read_text())
        with pytest.raises(NotCertified, match="SHA-1"):
            require_certified(key, [ca], "127.0.0.1")


@given(st.binary(max_size=300), st.integers(0, 400))
def test_no_bytes_end_in_another_error(more: bytes, at: int) -> None:
    """Whatever a server shows as a certificate, it is one or it is refused."""
    key = ECDSAKey.generate()
    kind = b"ecdsa-sha2-nistp256-cert-v01@openssh.com"
    whole = len(kind).to_bytes(4, "big") + kind + more
    key.public_blob = PublicBlob(  # type: ignore[assignment]
        kind.decode(), whole[: at or None]
    )
    with pytest.raises(NotCertified):
        require_certified(key, [OTHER], "n")


def test_a_plain_key_beside_an_authority(sshd: Sshd, authority: Path) -> None:
    """A server without a certificate is believed if its key is pinned, and only then."""
    line = f"@cert-authority * {public(authority)}"
    assert "it has no certificate" in connected(sshd, line)
    assert connected(sshd, line, f"NAME {text(HOST)}") == "here"
    assert "its host key has changed" in connected(sshd, line, f"NAME {text(OTHER)}")


@pytest.mark.parametrize("word", ["no", "accept-new", "ask", "off"])
def test_no_inventory_turns_it_off(sshd: Sshd, word: str) -> None:
    """Neither does the user's configuration of ssh."""
    (sshd.home.parent / ".ssh").mkdir()
    (sshd.home.parent / ".ssh" / "config").write_text("Host *\n  StrictHostKeyChecking \x6eo\n")
    assert "No host key for" in connected(sshd, ssh_strict_host_key_checking=word)
    assert sshd.attempts == []
    assert text(HOST) not in (sshd.home.parent / "known_hosts").read_text()


def test_no_agent_is_forwarded(sshd: Sshd) -> None:
    """Whatever the inventory and ssh's configuration say."""
    (sshd.home.parent / ".ssh").mkdir()
    (sshd.home.parent / ".ssh" / "config").write_text("Host *\n  ForwardAgent yes\n")
    assert connected(sshd, f"NAME {text(HOST)}", ssh_forward_agent=True) == "here"
    assert not sshd.agent_asked
