"""What the tests of a first contact share: an sshd of their own, and a controller without keys."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from paramiko import ECDSAKey

from gpu_node.deploy.engine.pyinfra_process import VARIABLE
from gpu_node.deploy.files import replace as replacement
from tests.onboarding.serving import Sshd, serving


@pytest.fixture(autouse=True)
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, no agent and no password; paramiko's log says nothing."""
    home = tmp_path / "controller"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    return home


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server whose root has a home, and a password."""
    home = tmp_path / "server"
    home.mkdir()
    with serving(home) as server:
        yield server


@pytest.fixture
def account(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    """The server's getpwent knows its home."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "getent").write_text(f"#!/bin/sh\necho 'x:x:0:0::{sshd.home}:/bin/sh'\n")
    (folder / "getent").chmod(0o755)
    sshd.path = f"{folder}:"
    monkeypatch.setattr(replacement, "backups", lambda: str(tmp_path / "backups"))
    return sshd


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key of the controller's, named in the inventory."""
    file = tmp_path / "own key"
    ECDSAKey.generate().write_private_key_file(str(file))
    return file


@pytest.fixture(autouse=True)
def pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The records of changes that wait to be confirmed, inside the test's own folder."""
    folder = tmp_path / "records" / "pending"
    monkeypatch.setattr(replacement, "PENDING", str(folder))
    return folder
