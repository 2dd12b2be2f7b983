"""Scripts in a session: their bytes, their end, and what happens when there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.inventories.connection import capped
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust.login import open_session
from gpu_node.onboarding.trust.password import Secret
from gpu_node.onboarding.trust.session import Result, Session
from tests.onboarding.serving import PASSWORD, Sshd


@pytest.fixture
def session(sshd: Sshd) -> Iterator[Session]:
    """One as root."""
    with open_session(sshd.server(), sshd.host_key, Secret(PASSWORD)) as session:
        yield session


def test_a_script(session: Session) -> None:
    """Its text is one argument, whatever is in it; out and err stay apart."""
    done = session.run("echo \"it's $0\"\nprintf 'a\\n\\nb'; echo no >&2; exit 7", 10)
    assert done == Result(7, ["it's sh", "a", "", "b"], "no")
    assert session.run(":", 10) == Result(0, [], "")


def test_any_bytes(session: Session) -> None:
    """What is no text comes as half surrogates: no byte is lost."""
    (line,) = session.run("printf 'm\\374ll \\303\\274'", 10).out
    assert line == "m\udcfcll \xfc"


def test_stdin(session: Session) -> None:
    """It goes there and ends, more of it than fits into a window at a time."""
    text = "x" * 3_000_000
    assert session.run("wc -c", 30, text).out[-1].strip() == "3000000"
    assert session.run("cat", 10).out == []
    assert session.run("exit 0", 10, "not read").code == 0


def test_a_script_that_does_not_end(session: Session) -> None:
    """It is given its seconds."""
    with pytest.raises(ContactError, match="did not answer within 1 s; try again"):
        session.run("exec sleep 5", 1)


def test_a_script_that_says_too_much(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory is filled with it."""
    monkeypatch.setattr(capped, "MOST_BYTES", 100_000)
    with pytest.raises(ContactError, match="sent more than"):
        session.run("head -c 200000 /dev/zero", 10)


def test_a_connection_that_breaks(session: Session) -> None:
    """Each has its own error."""
    session.close()
    with pytest.raises(ContactError, match=r"root@127.0.0.1:.* broke the connection"):
        session.run("true", 10)


def sudo(sshd: Sshd, script: str) -> None:
    """Put a sudo of the test's own into the server's PATH."""
    folder = sshd.home.parent / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "sudo").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "sudo").chmod(0o755)
    sshd.path = f"{folder}:"


def test_root_needs_no_sudo(sshd: Sshd, session: Session) -> None:
    """Whether there is one or not."""
    sudo(sshd, "exit 1")
    assert session.as_root("echo $HOME", 10).out == [str(sshd.home)]


def test_another_user_becomes_root(sshd: Sshd, tmp_path: Path) -> None:
    """By sudo, which is not to ask; the error has the reason and the next step."""
    sshd.password = PASSWORD
    server = sshd.server(user="zhang")
    with open_session(server, sshd.host_key, Secret(PASSWORD)) as session:
        sudo(sshd, f'echo "$*" >{tmp_path}/asked; shift; exec "$@"')
        assert session.as_root('echo "it\'s $0"', 10).out == ["it's sh"]
        assert (tmp_path / "asked").read_text().startswith("-n sh -c ")
        sudo(sshd, "echo 0")
        assert not session.sudo_refusal()
        sudo(sshd, "echo 'sudo: a password is required' >&2; exit 1")
        error = session.sudo_refusal()
        sudo(sshd, "echo 'sudo: sorry, you must have a tty to run sudo' >&2; exit 1")
        tty = session.sudo_refusal()
    assert "zhang cannot become root (sudo: a password is required): sudo asks zhang" in error
    assert "NOPASSWD" in error
    assert "`Defaults:zhang !requiretty`" in tty
