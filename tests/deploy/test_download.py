"""The controller's download: one fetch, kept only with the right sum, each failure reported."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer
from threading import Thread
from typing import cast

import pytest
from pyinfra.api import Host, State
from pyinfra_testing.util import FakeState, create_host
from typing_extensions import override

from gpu_node.deploy.toolchain.operations import download

DATA = bytes(range(256)) * 9000
SUM = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A file to fetch, by a file:// url."""
    path = tmp_path / "release"
    path.write_bytes(DATA)
    return path


def fetch(url: str, sha256: str, target: Path) -> bool:
    """Download as the operation does, for a host that is not asked anything."""
    state = FakeState()
    return download(cast(State, state), cast(Host, create_host(state)), url, sha256, str(target))


def test_fetched_once(release: Path, tmp_path: Path) -> None:
    """The first host's download serves every later one: the source may be gone by then."""
    target = tmp_path / "cache" / "gpu-node" / "release"
    assert fetch(release.as_uri(), SUM, target)
    release.unlink()
    assert fetch(release.as_uri(), SUM, target)
    assert [path.name for path in target.parent.iterdir()] == ["release"]
    assert target.read_bytes() == DATA


def test_a_kept_file_that_is_damaged(release: Path, tmp_path: Path) -> None:
    """What the cache holds is checked each time, and fetched again where it is not right."""
    target = tmp_path / "kept"
    target.write_bytes(DATA[:-1])
    assert fetch(release.as_uri(), SUM, target)
    assert target.read_bytes() == DATA


def test_a_wrong_sum(release: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file with another sum than the inventory's is not kept; the error shows both sums."""
    target = tmp_path / "cache" / "release"
    with caplog.at_level(logging.ERROR, "pyinfra"):
        assert not fetch(release.as_uri(), "0" * 64, target)
    assert list(target.parent.iterdir()) == []
    assert f"the tarball's sha256 is {SUM}, wanted {'0' * 64}" in caplog.text


@pytest.mark.parametrize("url", ["file:///no/such/file", "http://127.0.0.1:1/x", "nothing"])
def test_a_url_that_fails(url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A failure is one line that names the url, and False: the host fails, the others go on."""
    target = tmp_path / "release"
    with caplog.at_level(logging.ERROR, "pyinfra"):
        assert not fetch(url, SUM, target)
    assert f"the controller cannot fetch {url}: " in caplog.text
    assert not target.exists()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", CHUNKED + b"zz\r\n", CHUNKED + b"5\r\nab"])
def test_a_server_that_breaks_off(
    answer: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is no HTTP fails as a url that fails, and leaves nothing beside the target."""

    class Handler(BaseRequestHandler):
        @override
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(answer)

    with TCPServer(("127.0.0.1", 0), Handler) as server, caplog.at_level(logging.ERROR, "pyinfra"):
        thread = Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/x"
        assert not fetch(url, SUM, tmp_path / "cache" / "release")
        thread.join()
    assert f"the controller cannot fetch {url}: " in caplog.text
    assert list((tmp_path / "cache").iterdir()) == []
