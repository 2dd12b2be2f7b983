"""What pyinfra logs of a refused host key: both fingerprints and the way on, not its own advice."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from paramiko import (
    AuthenticationException,
    BadHostKeyException,
    ECDSAKey,
    PasswordRequiredException,
    SSHException,
)
from pyinfra import logger
from pyinfra.api.exceptions import ConnectError

from gpu_node.inventories.connection.refused_keys import explain, refusal

OFFERED, PINNED = ECDSAKey.generate(), ECDSAKey.generate()


@pytest.fixture(autouse=True)
def explaining() -> Iterator[None]:
    """An inventory was read; whatever filters were there before are there again."""
    before = list(logger.filters)
    explain("inventories/lab.py", {"192.0.2.5": "v100-01"})
    yield
    logger.filters = before


def _refuse(error: SSHException, message: str = "SSH host key error") -> None:
    """As pyinfra's connector and host do, one within the other."""
    try:
        try:
            raise error
        except SSHException:
            logger.warning("If this is expected, you can remove the bad key")
            raise ConnectError(message)  # noqa: B904 (as pyinfra raises it)
    except ConnectError as raised:
        logger.error(f"[v100-01] {raised.args[0]}")


def test_a_changed_key(caplog: pytest.LogCaptureFixture) -> None:
    """Forgetting the key unseen is not what is advised."""
    caplog.set_level(logging.INFO, logger.name)
    words = "SSH host key error (Host key for 192.0.2.5 does not match.)"
    _refuse(BadHostKeyException("192.0.2.5", OFFERED, PINNED), words)
    (message,) = caplog.messages
    assert message.startswith("[v100-01] its host key has changed: pinned ")
    assert message.index(PINNED.fingerprint) < message.index(OFFERED.fingerprint)
    command = "gpu-node host-key inventories/lab.py v100-01 --accept "
    assert message.endswith(command + OFFERED.fingerprint)


@pytest.mark.parametrize("name", ["192.0.2.5", "[192.0.2.5]:2222"])
def test_an_unknown_key(caplog: pytest.LogCaptureFixture, name: str) -> None:
    """What it offers is shown by the command that is named."""
    _refuse(SSHException(f"StrictPolicy: No host key for {name} found in known_hosts"))
    (message,) = caplog.messages
    assert "its host key is not pinned" in message
    assert message.endswith("gpu-node host-key inventories/lab.py v100-01")


def test_a_login_that_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """sshd never says why: the two usual causes, and where to look."""
    _refuse(AuthenticationException("Authentication failed."))
    (message,) = caplog.messages
    assert message.startswith(
        "[v100-01] SSH host key error: its sshd accepts none of the offered keys"
    )
    assert "not in that user's ~/.ssh/authorized_keys" in message and "StrictModes" in message
    assert "ls -ld ~ ~/.ssh ~/.ssh/authorized_keys" in message and "the log of sshd" in message


def test_a_key_with_a_passphrase(caplog: pytest.LogCaptureFixture) -> None:
    """It was not offered, so nothing on the node is wrong: the agent is the next step."""
    _refuse(PasswordRequiredException("Private key file is encrypted"), "Authentication error")
    (message,) = caplog.messages
    assert message.startswith("[v100-01] Authentication error: the key has a passphrase")
    assert "ssh-add" in message and "authorized_keys" not in message


def test_any_other_line_stays(caplog: pytest.LogCaptureFixture) -> None:
    """Errors of other kinds, and messages outside of any."""
    _refuse(SSHException("no banner"))
    logger.warning("well")
    assert caplog.messages == [
        "If this is expected, you can remove the bad key",
        "[v100-01] SSH host key error",
        "well",
    ]
    assert refusal(None) is None
