"""The controller's copy of a release: fetched once, kept only with the right sum."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from pyinfra.api import Host, State
from pyinfra_testing.util import FakeState, create_host

from deploy.operations.toolchain import cache, download

DATA = b"a release"
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return the file behind the URL."""
    path = tmp_path / "cmake.tar.gz"
    path.write_bytes(DATA)
    return path


def fetch(source: Path, sha256: str, target: Path) -> bool:
    """Run the function as the operation does."""
    state: State = FakeState()
    host: Host = create_host(state)
    return download(state, host, source.as_uri(), sha256, str(target))


def test_it_is_kept_in_the_cache_folder(source: Path, tmp_path: Path) -> None:
    """Whole, under its name, with nothing beside it."""
    target = tmp_path / "new" / "cache" / "cmake.tar.gz"
    assert fetch(source, SHA256, target)
    assert target.read_bytes() == DATA
    assert os.listdir(target.parent) == [target.name]


def test_a_second_node_does_not_fetch_again(source: Path, tmp_path: Path) -> None:
    """What has the right sum is used as it is."""
    target = tmp_path / "cache" / "cmake.tar.gz"
    assert fetch(source, SHA256, target)
    source.unlink()
    assert fetch(source, SHA256, target)


def test_a_damaged_copy_is_fetched_anew(source: Path, tmp_path: Path) -> None:
    """A sum is looked at every time."""
    target = tmp_path / "cmake-kept.tar.gz"
    target.write_bytes(b"half")
    assert fetch(source, SHA256, target)
    assert target.read_bytes() == DATA


def test_a_wrong_sum_is_not_kept(source: Path, tmp_path: Path) -> None:
    """Neither under its name nor half-way."""
    target = tmp_path / "cache" / "cmake.tar.gz"
    assert not fetch(source, "0" * 64, target)
    assert os.listdir(target.parent) == []


def test_no_such_file_behind_the_url(source: Path, tmp_path: Path) -> None:
    """A failure of this node's run, and no exception."""
    source.unlink()
    assert not fetch(source, SHA256, tmp_path / "cache" / "cmake.tar.gz")


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the desktop's rules put it."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache() == Path("/somewhere/gpu-node")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache() == Path("/home/me/.cache/gpu-node")
