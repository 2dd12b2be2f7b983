"""What a connection's error says of a refused key: both fingerprints and the next step."""

from __future__ import annotations

import pytest
from paramiko import (
    AuthenticationException,
    BadHostKeyException,
    ECDSAKey,
    PasswordRequiredException,
    SSHException,
)
from pyinfra.api.exceptions import ConnectError

from gpu_node.inventories.connection.refused_keys import explained, refusal

OFFERED, PINNED = ECDSAKey.generate(), ECDSAKey.generate()


def message_of(error: SSHException, message: str = "SSH host key error") -> str:
    """Return the message of a connection that an error has ended."""
    raised = ConnectError(message)
    raised.__context__ = error
    refused = refusal(raised)
    assert refused is error
    return explained(message, refused, "inventories/lab.py", "v100-01")


def test_a_changed_key() -> None:
    """Forgetting the key unseen is not what is advised."""
    words = "SSH host key error (Host key for 192.0.2.5 does not match.)"
    message = message_of(BadHostKeyException("192.0.2.5", OFFERED, PINNED), words)
    assert message.startswith("its host key has changed: pinned ")
    assert message.index(PINNED.fingerprint) < message.index(OFFERED.fingerprint)
    command = "gpu-node host-key inventories/lab.py v100-01 --accept "
    assert message.endswith(command + OFFERED.fingerprint)


def test_the_command_is_one_for_a_shell() -> None:
    """Whatever the inventory's file is called."""
    words = "StrictPolicy: No host key for 192.0.2.5 found in known_hosts"
    message = explained(words, SSHException(words), "my cluster/lab.py", "v100-01")
    assert message.endswith("gpu-node host-key 'my cluster/lab.py' v100-01")


@pytest.mark.parametrize("name", ["192.0.2.5", "[192.0.2.5]:2222"])
def test_an_unknown_key(name: str) -> None:
    """What it offers is shown by the command that is named."""
    message = message_of(SSHException(f"StrictPolicy: No host key for {name} found in known_hosts"))
    assert "its host key is not pinned" in message
    assert message.endswith("gpu-node host-key inventories/lab.py v100-01")


def test_a_login_that_is_refused() -> None:
    """sshd gives no reason: the usual causes, and where to look."""
    message = message_of(AuthenticationException("Authentication failed."))
    assert message.startswith("SSH host key error: its sshd accepts none of the offered keys")
    assert "no such user is there" in message
    assert "not in that user's ~/.ssh/authorized_keys" in message and "StrictModes" in message
    assert "ls -ld ~ ~/.ssh ~/.ssh/authorized_keys" in message and "the log of sshd" in message


def test_a_key_with_a_passphrase() -> None:
    """It was not offered, so nothing on the node is wrong: the agent is the next step."""
    error = PasswordRequiredException("Private key file is encrypted")
    message = message_of(error, "Authentication error")
    assert message.startswith("Authentication error: the key has a passphrase")
    assert "ssh-add" in message and "authorized_keys" not in message


def test_any_other_error_is_no_refusal() -> None:
    """It has a next step of its own, or none."""
    assert refusal(SSHException("no banner")) is None
    assert refusal(None) is None
