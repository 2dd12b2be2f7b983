"""The inventory's proxy reaches each download of a script, and no file of the node."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from pyinfra.context import ctx_host
from pyinfra_testing.util import FakeState, create_host
from typing_extensions import override

from gpu_node.deploy.engine.scripts import FILES, needed, script, text

# Programs that download; in `apt-get -s` and in messages nothing is.
_DOWNLOADS = re.compile(
    r"^[^#\n]*(?:output=\$\((?:curl|wget) |pip (?:download|install) -|"
    r"patient (?:apt-get|with_options) )",
    re.MULTILINE,
)
DOWNLOADING = sorted(name for name in FILES if _DOWNLOADS.search(text(name)))


def test_every_script_that_downloads_takes_the_proxy() -> None:
    """One that would be left out would fail on a node behind a proxy."""
    assert {"cmake", "wheels", "packages_pip", "transaction_deb", "transaction_rpm"} <= {
        *DOWNLOADING
    }
    lacking = [
        name for name in DOWNLOADING if not all("proxy" in needed(each) for each in _of(name))
    ]
    assert lacking == []


def _of(name: str) -> list[str]:
    """Return a script, or those that it is a piece of."""
    return [each for each in FILES if name in needed(each)] or [name]


class Requests(BaseHTTPRequestHandler):
    """A proxy that answers itself, and keeps what it was asked for."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"through the proxy")

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """The URL of a proxy on this machine, and the URLs that it was asked for."""
    asked: list[str] = []
    handler = type("Handler", (Requests,), {"asked": asked})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


def body_of(name: str, **data: object) -> str:
    """Return a script as it is sent to a host with this data."""
    given = {"prefix": "/opt/x", "keep": "x==1", "remove": ""} if name == "wheels" else {}
    with ctx_host.use(create_host(FakeState(), data=data)):
        return str(script(name, **given).bits[0])


def run(command: str) -> subprocess.CompletedProcess[str]:
    """Run sh without this machine's own proxies."""
    return subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "all_proxy": "socks5://127.0.0.1:9"},
        check=False,
    )


def head_of(name: str, **data: object) -> str:
    """Return the part of a script before its first download: variables and proxy.sh."""
    lines = [
        line for line in body_of(name, **data).splitlines() if line[:6] in ("proxy=", "direct")
    ]
    return "\n".join([*lines, text("proxy")])


@pytest.mark.parametrize("name", ["cmake", "packages_deb", "wheels"])
def test_a_download_goes_through_it(proxy: tuple[str, list[str]], name: str) -> None:
    """As curl does it; the host of the URL need not be known to the node."""
    url, asked = proxy
    head = head_of(name, proxy_url=url, proxy_no_proxy=("10.0.0.4", ".example.org"))
    done = run(f"{head}curl -fsS http://far.invalid/wheel.whl")
    assert (done.returncode, done.stdout) == (0, "through the proxy"), done.stderr
    assert asked == ["http://far.invalid/wheel.whl"]


@pytest.mark.parametrize("host", ["127.0.0.1:9", "a.example.org:9"])
def test_a_host_that_is_reached_without_it(proxy: tuple[str, list[str]], host: str) -> None:
    """This machine always, and what the inventory names; nothing listens on port 9."""
    url, asked = proxy
    head = head_of("cmake", proxy_url=url, proxy_no_proxy="10.0.0.4,.example.org")
    assert run(f"{head}curl -fsS --max-time 5 http://{host}/x").returncode != 0
    assert asked == []


def test_without_a_key_nothing_is_set() -> None:
    """A proxy that the node itself has in its environment stays."""
    assert "all_proxy=socks5" in run(f"{head_of('cmake')}env").stdout
    assert "http_proxy=" not in run(f"{head_of('cmake')}env").stdout


def test_an_environments_owner_gets_it() -> None:
    """pip runs as that account: by_owner.sh hands over these variables by name."""
    body = body_of("wheels", proxy_url="http://10.0.0.1:3128")
    names = re.search(r"^for name in ((?:.*\\\n)*.*); do$", text("by_owner"), re.MULTILINE)
    assert names is not None
    assert {"http_proxy", "https_proxy", "no_proxy"} <= {*names[1].replace("\\\n", "").split()}
    # It is set before the account changes.
    assert body.index("export http_proxy") < body.index("environment_owner ")


def test_no_file_is_written(tmp_path: Path) -> None:
    """The piece sets variables, and does nothing else."""
    lines = [line.strip() for line in text("proxy").splitlines() if not line.startswith("#")]
    words = {line.split()[0].split("=")[0] for line in lines if line}
    assert words == {"if", "http_proxy", "HTTP_PROXY", "export", "unset", "fi"}
