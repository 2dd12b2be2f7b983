"""Logging in: by key before by password, to one host key alone; a refusal says what was tried."""

from __future__ import annotations

import subprocess
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from paramiko import ECDSAKey, RSAKey

from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust import login
from gpu_node.onboarding.trust.keys import own_keys, public_key
from gpu_node.onboarding.trust.login import Password, methods, open_session, prove_key
from gpu_node.onboarding.trust.password import Secret
from gpu_node.onboarding.trust.session import Session
from tests.node_scripts import until
from tests.onboarding.serving import PASSWORD, Sshd


def opened(sshd: Sshd, secret: Password = None, **other: object) -> Session:
    """A session."""
    return open_session(sshd.server(**other), sshd.host_key, secret)


def refusal(sshd: Sshd, secret: Password = None, **other: object) -> str:
    """Why there is no session; the password is in nothing that can be shown of the error."""
    with pytest.raises(ContactError) as caught:
        opened(sshd, secret, **other)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    text = "".join(shown.format())
    # The test's own server is in the frames, too, and knows it.
    assert PASSWORD not in text.replace(repr(sshd), "")
    assert PASSWORD not in repr(caught.value)
    return str(caught.value)


@pytest.fixture(autouse=True)
def is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that waits for nothing fails soon."""
    monkeypatch.setattr(login, "_BUSY_SECONDS", 20)


@pytest.mark.parametrize("taken", ["publickey,password", "publickey,keyboard-interactive"])
def test_by_password(sshd: Sshd, taken: str) -> None:
    """Where it is the only way in, however sshd asks for it."""
    sshd.methods = taken
    with opened(sshd, Secret(PASSWORD)) as session:
        assert session.by == "password"
        assert session.run("echo $0 out; echo err >&2; exit 3", 10).code == 3


def test_prompts_that_are_not_for_a_password(sshd: Sshd) -> None:
    """A field that is shown while it is typed does not get the password."""
    sshd.methods = "keyboard-interactive"
    sshd.prompts = [("Login: ", True), ("Password: ", False)]
    opened(sshd, Secret(PASSWORD)).close()


def test_by_a_named_key(sshd: Sshd, key: Path) -> None:
    """The password is neither sent nor asked for."""
    sshd.authorized = [ECDSAKey.from_private_key_file(str(key))]
    asked: list[str] = []

    def ask() -> None:
        asked.append("")

    with opened(sshd, ask, key=key) as session:
        assert session.by == "key"
    assert (asked, "password" in sshd.attempts) == ([], False)
    prove_key(sshd.server(key=key), sshd.host_key)


@pytest.mark.parametrize("name", ["id_ecdsa", "id_rsa"])
def test_by_a_key_of_the_users(sshd: Sshd, controller: Path, name: str) -> None:
    """What ssh would take, where no key is named."""
    own = RSAKey.generate(2048) if name == "id_rsa" else ECDSAKey.generate()
    (controller / ".ssh").mkdir()
    own.write_private_key_file(str(controller / ".ssh" / name))
    sshd.authorized = [own]
    with opened(sshd) as session:
        assert session.by == "key"
    assert public_key(sshd.server()) == f"{own.get_name()} {own.get_base64()}"


def test_the_password_is_asked_for_when_it_is_needed(sshd: Sshd, key: Path) -> None:
    """After the key was refused; it may then not be given."""
    assert opened(sshd, lambda: Secret(PASSWORD), key=key).by == "password"
    assert sshd.attempts == ["publickey", "password"]
    error = refusal(sshd, lambda: None, key=key)
    assert f"root@127.0.0.1:{sshd.port}: found no login: " in error
    assert f"the key {key} is refused (its sshd accepts password, publickey)" in error
    assert "GPU_NODE_PASSWORD" in error


def test_a_wrong_password(sshd: Sshd) -> None:
    """For root it may be another reason, which sshd does not tell."""
    sshd.password = "other"
    attempts = sshd.attempts
    assert "PermitRootLogin prohibit-password" in refusal(sshd, Secret(PASSWORD))
    assert attempts.count("password") == 1
    error = refusal(sshd, Secret(PASSWORD), user="zhang")
    assert "the password is refused" in error
    assert error.endswith(
        "is it zhang's password, and does zhang exist there? --user root for root's"
    )


def typing(*passwords: str) -> tuple[Password, list[str]]:
    """A user at a terminal types one password after the other; the remaining ones."""
    left = list(passwords)
    return lambda: Secret(left.pop(0)) if left else None, left


def test_a_mistyped_password(sshd: Sshd) -> None:
    """It is asked for again, three times in all as ssh does."""
    types, left = typing("one", PASSWORD, "never")
    opened(sshd, types).close()
    assert left == ["never"]
    types, left = typing("one", "two", "three", "never")
    assert "the password is refused" in refusal(sshd, types)
    assert left == ["never"]


def test_a_user_who_types_no_more(sshd: Sshd) -> None:
    """The error lists what was tried."""
    types, _ = typing("one")
    assert "the password is refused" in refusal(sshd, types)


def test_a_password_that_is_not_taken_is_not_asked_for_again(sshd: Sshd) -> None:
    """Another one would not be taken either."""
    sshd.methods = "publickey"
    types, left = typing("one", "never")
    assert "sshd accepts no password there" in refusal(sshd, types)
    assert left == ["never"]


def test_a_server_that_takes_no_password(sshd: Sshd) -> None:
    """The password is not sent; the error names the other way in."""
    sshd.methods = "publickey"
    error = refusal(sshd, Secret(PASSWORD))
    assert "sshd accepts no password there" in error
    assert "~root/.ssh/authorized_keys" in error


def test_a_second_factor(sshd: Sshd) -> None:
    """Its own error; nothing waits for an answer."""
    sshd.second_factor = True
    assert "sshd also requires" in refusal(sshd, Secret(PASSWORD))


def test_a_server_that_hangs_up_at_the_password(sshd: Sshd) -> None:
    """As a killed or a full one does."""
    sshd.on_password = hang_up
    assert "; it closed the connection; next: try again" in refusal(sshd, Secret(PASSWORD))


def test_a_server_that_falls_silent_at_the_password(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PAM does whose directory does not answer: that is no refusal."""
    done = threading.Event()
    sshd.on_password = done.wait
    monkeypatch.setattr(login, "_BUSY_SECONDS", 1)
    error = refusal(sshd, Secret(PASSWORD))
    done.set()
    assert "; it did not answer in time; next: try again" in error


@pytest.mark.parametrize("other", [ECDSAKey.generate, lambda: RSAKey.generate(2048)])
def test_a_changed_host_key(sshd: Sshd, other: Callable[[], ECDSAKey]) -> None:
    """Between two contacts, of the same or another kind: no credentials are sent."""
    before = sshd.host_key
    old = sshd.keys[0].fingerprint
    sshd.keys = [other()]
    with pytest.raises(ContactError, match="has changed since it was confirmed") as caught:
        open_session(sshd.server(), before, Secret(PASSWORD))
    assert old in str(caught.value) and sshd.keys[0].fingerprint in str(caught.value)
    with pytest.raises(ContactError, match="has changed"):
        methods(sshd.server(), before)
    assert sshd.attempts == []


def test_the_chosen_one_of_two_host_keys(sshd: Sshd) -> None:
    """The handshake is done with the kind that was confirmed, the other one being preferred."""
    sshd.keys.append(RSAKey.generate(2048))
    rsa = f"{sshd.keys[1].get_name()} {sshd.keys[1].get_base64()}"
    for host_key in (rsa, sshd.host_key):
        open_session(sshd.server(), host_key, Secret(PASSWORD)).close()


def test_a_shell_that_runs_no_commands(sshd: Sshd) -> None:
    """The error has its output."""
    sshd.runs_commands = False
    assert "runs no commands; its output: This account is currently" in refusal(
        sshd, Secret(PASSWORD)
    )


def test_the_ways_in(sshd: Sshd) -> None:
    """As sshd lists them."""
    assert methods(sshd.server(), sshd.host_key) == ("password", "publickey")


def hang_up() -> None:
    """End a connection, as a killed or a full sshd does."""
    raise EOFError


def test_the_methods_are_not_listed(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks, or an sshd that is silent, is none that takes no passwords."""
    sshd.on_none = hang_up
    with pytest.raises(ContactError, match="does not list its login methods"):
        methods(sshd.server(), sshd.host_key)
    done = threading.Event()
    sshd.on_none = done.wait
    monkeypatch.setattr(login, "_BUSY_SECONDS", 1)
    with pytest.raises(ContactError, match="does not list its login methods"):
        methods(sshd.server(), sshd.host_key)
    done.set()


def test_an_account_that_asks_for_nothing(sshd: Sshd, key: Path) -> None:
    """As with an empty password; named, also where another user's key is refused."""
    sshd.accepts_none = True
    assert methods(sshd.server(), sshd.host_key) == ("none",)
    assert "accepts the account without a password" in refusal(sshd, key=key)


@pytest.mark.parametrize("taken", ["publickey,password", "publickey,keyboard-interactive"])
def test_what_is_not_utf_8(sshd: Sshd, key: Path, taken: str) -> None:
    """Neither a password nor a user: a refusal, and none of it in what is raised."""
    sshd.methods = taken
    error = refusal(sshd, Secret(f"{PASSWORD}\udcff"))
    assert "the user or the password is not UTF-8" in error
    assert "the user or the password is not UTF-8" in refusal(sshd, key=key, user="zh\udcff")


def test_a_key_that_is_not_there(sshd: Sshd, tmp_path: Path) -> None:
    """Named in the refusal, and where it is asked for."""
    error = refusal(sshd, key=tmp_path / "gone")
    assert f"no key {tmp_path / 'gone'} can be used" in error
    with pytest.raises(
        ContactError, match=r"found no such file .*; next: create it: ssh-keygen -t ed25519 -f"
    ):
        public_key(sshd.server(key=tmp_path / "gone"))


def test_public_keys(sshd: Sshd, key: Path) -> None:
    """Of the private key, with the comment of the file beside it if that is its own."""
    private = ECDSAKey.from_private_key_file(str(key))
    public = f"{private.get_name()} {private.get_base64()}"
    server = sshd.server(key=key)
    assert public_key(server) == public
    key.with_name("own key.pub").write_text(f"\n{public}  zhang@home\n")
    assert public_key(server) == f"{public} zhang@home"
    for beside in (f"ssh-rsa {private.get_base64()} of another key\n", "nothing\n"):
        key.with_name("own key.pub").write_text(beside)
        assert public_key(server) == public
    with pytest.raises(ContactError, match="found no key to log in with"):
        public_key(sshd.server())


def test_a_key_with_a_passphrase(sshd: Sshd, key: Path) -> None:
    """It is of no use here; its public key is needed beside it."""
    ECDSAKey.generate().write_private_key_file(str(key), password="passphrase")
    with pytest.raises(ContactError, match="has a passphrase; next: put its public key beside it"):
        public_key(sshd.server(key=key))
    assert "can be used (does it exist, without a passphrase?)" in refusal(sshd, key=key)
    key.with_name("own key.pub").write_text("ssh-rsa AAAA zhang@home\n")
    assert public_key(sshd.server(key=key)) == "ssh-rsa AAAA zhang@home"
    key.unlink()
    with pytest.raises(ContactError, match="found no such file"):
        public_key(sshd.server(key=key))


def test_a_key_that_ssh_config_names(sshd: Sshd, key: Path, controller: Path) -> None:
    """It is tried as pyinfra does, which logs in afterwards; a file that is gone is none."""
    server = sshd.server()
    (controller / ".ssh").mkdir()
    lines = [f"Host {server.address}", f'  IdentityFile "{key}"', "  IdentityFile ~/gone"]
    (controller / ".ssh" / "config").write_text("\n".join([*lines, ""]))
    private = ECDSAKey.from_private_key_file(str(key))
    with own_keys(server) as found:
        assert [each.get_base64() for each in found] == [private.get_base64()]


def test_by_an_agent(
    sshd: Sshd, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no key is named its first one is let in, and logs in."""
    place = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", place], stdout=subprocess.DEVNULL) as agent:
        try:
            assert until(place.exists)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
            subprocess.run(["ssh-add", "-q", key], check=True, capture_output=True)
            private = ECDSAKey.from_private_key_file(str(key))
            public = f"{private.get_name()} {private.get_base64()}"
            assert public_key(sshd.server()).startswith(public)
            assert "every key of an agent or ~/.ssh is refused" in refusal(sshd)
            sshd.authorized_keys.parent.mkdir()
            sshd.authorized_keys.write_text(public)
            assert opened(sshd, Secret(PASSWORD)).by == "key"
        finally:
            agent.terminate()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_dead_agent(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were none."""
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    assert "no key of an agent or ~/.ssh can be used" in refusal(sshd)
