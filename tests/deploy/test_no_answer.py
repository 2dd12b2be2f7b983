"""A repository or an index that cannot be read is the reason, before any missing package."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import text
from tests.node_scripts import run

PIP_19 = (
    "WARNING: Retrying (Retry(total={}, connect=None, read=None, redirect=None, status=None)) "
    "after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection."
    "HTTPConnection object at 0x7fd722b3de50>: Failed to establish a new connection: "
    "[Errno 113] No route to host')': /wheels/"
)
NO_WHEEL = "ERROR: No matching distribution found for nvidia-nccl-cu12==2.18.2"
# As these programs have printed it, but for the lines of yum: by its source, which CentOS 7 has.
CASES = {
    "dnf": (
        """\
CentOS-7 - Base                                 0.0  B/s |   0  B     00:12
Errors during downloading metadata for repository 'base':
  - Curl error (7): Couldn't connect to server for http://10.0.0.2/rpm/repodata/repomd.xml [Failed \
to connect to 10.0.0.2 port 80 after 3207 ms: Couldn't connect to server]
Error: Failed to download metadata for repo 'base': Cannot download repomd.xml: All \
mirrors were tried
Ignoring repositories: base
No match for argument: kernel-devel-9.9
Error: Unable to find a match: kernel-devel-9.9""",
        "http://10.0.0.2/rpm/repodata/repomd.xml cannot be read: Curl error (7): Couldn't "
        "connect to server: ",
    ),
    "dnf, with a password": (
        "  - Status code: 503 for https://me:hidden@mirror.example/x/repomd.xml (IP: 10.0.0.2)",
        "https://mirror.example/x/repomd.xml cannot be read: Status code: 503: ",
    ),
    "yum": (
        """\
http://10.0.0.2/rpm/repodata/repomd.xml: [Errno 14] curl#7 - "Failed connect to 10.0.0.2:80; \
Connection refused"
Trying other mirror.
No package kernel-devel-9.9 available.
Error: Nothing to do""",
        "http://10.0.0.2/rpm/repodata/repomd.xml cannot be read: [Errno 14] curl#7 - "
        '"Failed connect to 10.0.0.2:80; Connection refused": ',
    ),
    "yum, its list of mirrors": (
        """\
Could not retrieve mirrorlist http://mirrorlist.centos.org/?release=7&repo=os error was
14: curl#6 - "Could not resolve host: mirrorlist.centos.org; Unknown error"
Cannot find a valid baseurl for repo: base/7/x86_64""",
        "http://mirrorlist.centos.org/?release=7&repo=os cannot be read: 14: curl#6 - "
        '"Could not resolve host: mirrorlist.centos.org; Unknown error": ',
    ),
    "apt": (
        """\
Err:1 http://10.0.0.2/deb ./ InRelease
  Could not connect to 10.0.0.2:80 (10.0.0.2). - connect (113: No route to host)
Reading package lists...
W: Failed to fetch http://10.0.0.2/deb/./InRelease  Could not connect to 10.0.0.2:80 (10.0.0.2). - \
connect (113: No route to host)
W: Some index files failed to download. They have been ignored, or old ones used instead.
E: Unable to locate package linux-headers-9""",
        "http://10.0.0.2/deb/./InRelease cannot be read: Could not connect to 10.0.0.2:80 "
        "(10.0.0.2). - connect (113: No route to host): ",
    ),
    "pip": (
        "\n".join(
            [
                "Looking in indexes: https://index.example/simple, http://10.0.0.2/more",
                "Looking in links: http://10.0.0.2/wheels/",
                *(PIP_19.format(total) for total in (4, 3, 2, 1, 0)),
                NO_WHEEL,
            ]
        ),
        "http://10.0.0.2/wheels/ cannot be read: NewConnectionError('Failed to establish a new "
        "connection: [Errno 113] No route to host'): ",
    ),
    "pip, of two with one path": (
        f"""\
Looking in indexes: https://one.example/simple, https://no-such.example/simple
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after \
connection broken by 'NameResolutionError("HTTPSConnection(host='no-such.example', port=443): \
Failed to resolve 'no-such.example' ([Errno -2] Name or service not known)")': /simple/ninja/
{NO_WHEEL}""",
        'https://no-such.example/simple cannot be read: NameResolutionError("Failed to resolve '
        "'no-such.example' ([Errno -2] Name or service not known)\"): ",
    ),
    "pip, its own index": (
        f"{PIP_19.format(0).replace('/wheels/', '/simple/ninja/')}\n{NO_WHEEL}",
        "https://pypi.org/simple cannot be read: NewConnectionError('Failed to establish",
    ),
    "pip, another server": (
        "pip._vendor.urllib3.exceptions.ReadTimeoutError: "
        "HTTPSConnectionPool(host='files.example', port=443): Read timed out.",
        "files.example cannot be read: Read timed out.: ",
    ),
    "pip, an answer after all": (f"{PIP_19.format(1)}\n{NO_WHEEL}", ""),
    "all read": (f"No match for argument: kernel-devel-9.9\nE: Unable to locate x\n{NO_WHEEL}", ""),
}
NEXT = "check it, and the network and the proxy of this node, and run again; "


def answer(output: str, shell: str) -> str:
    """What a script finds in a program's output."""
    words = f"{text('no_answer')}\nset -u\nno_answer {shlex.quote(output)}"
    done = run(StringCommand(words), shell)
    assert (done.code, done.err) == (0, "")
    return done.out.rstrip("\n")


@pytest.mark.parametrize(("output", "expected"), CASES.values(), ids=CASES)
def test_what_could_not_be_read(output: str, expected: str, shell: str) -> None:
    """Its URL without a password, the error, and what is next."""
    found = answer(output, shell)
    assert found.startswith(expected) and "hidden" not in found
    assert found.endswith(NEXT) if expected else not found


def test_the_pip_that_is_here(tmp_path: Path, shell: str) -> None:
    """What this pip prints is understood: with two indexes, of which none is there."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/simple"
        words = [*(sys.executable, "-m", "pip", "download", "--isolated", "--retries=1"), "ninja"]
        words += ["--disable-pip-version-check", "-d", str(tmp_path), "-i", url]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert answer(done.stdout + done.stderr, shell).startswith(f"{url} cannot be read: ")
