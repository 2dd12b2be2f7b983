"""A key that has a passphrase: asked for once, on a terminal, and kept by the agent."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from gpu_node.deploy.console import UserConsole
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.trust.keys import without_passphrase
from tests.node_scripts import until

WORD = "a passphrase"


class Terminal(UserConsole):
    """A user at a terminal, or none."""

    def __init__(self, is_there: bool) -> None:
        super().__init__()
        self.is_there = is_there

    @property
    @override
    def is_attended(self) -> bool:
        return self.is_there


@pytest.fixture
def encrypted(tmp_path: Path) -> Path:
    """A private key with a passphrase."""
    file = tmp_path / "my key"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", WORD, "-f", str(file)]
    subprocess.run(command, check=True)
    return file


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An agent without keys; ssh-add gets the passphrase from a program in place of a terminal."""
    place, answer = tmp_path / "agent", tmp_path / "answer"
    answer.write_text(f"#!/bin/sh\necho '{WORD}'\n")
    answer.chmod(stat.S_IRWXU)
    monkeypatch.setenv("SSH_ASKPASS", str(answer))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    with subprocess.Popen(["ssh-agent", "-D", "-a", place], stdout=subprocess.DEVNULL) as running:
        try:
            assert until(place.exists)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
            yield
        finally:
            running.terminate()


def test_the_agent_gets_it(encrypted: Path, agent: None) -> None:
    """The inventory then names no key."""
    assert without_passphrase(encrypted, Terminal(True)) is None
    listed = subprocess.run(["ssh-add", "-L"], capture_output=True, text=True, check=True).stdout
    assert encrypted.with_suffix(".pub").read_text().split()[1] in listed


def test_a_passphrase_that_is_wrong(
    encrypted: Path, agent: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "answer").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(Stopped, match=r"^--key: found '.*my key' \(.* ended with 1\); allowed: "):
        without_passphrase(encrypted, Terminal(True))


@pytest.mark.parametrize(
    ("is_there", "lacks"), [(True, "no agent"), (False, "no terminal to ask for it")]
)
def test_where_it_cannot_be_asked_for(encrypted: Path, is_there: bool, lacks: str) -> None:
    """One line, with the commands that help."""
    assert "SSH_AUTH_SOCK" not in os.environ
    with pytest.raises(Stopped) as error:
        without_passphrase(encrypted, Terminal(is_there))
    assert str(error.value) == (
        f"--key: found '{encrypted}' (encrypted with a passphrase, and {lacks}); allowed: a key "
        'without a passphrase, or one of an agent; next: eval "$(ssh-agent)"; ssh-add '
        f"'{encrypted}'; then no --key"
    )


def test_a_key_without_a_passphrase(key: Path) -> None:
    """It stays, as does what is not a key: the cluster file's checks name it."""
    assert without_passphrase(key, Terminal(True)) == key
    gone = key.with_name("gone")
    assert without_passphrase(gone, Terminal(True)) == gone
    assert without_passphrase(None, Terminal(True)) is None
