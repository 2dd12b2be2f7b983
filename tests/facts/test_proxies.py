"""Lines that set a proxy on the node itself, in each shell; which programs listen there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from gpu_node.facts.env import state as env
from gpu_node.facts.env.proxies import Proxy
from gpu_node.facts.probe.protocol import Reading, Readings
from gpu_node.facts.probe.request import ProbeRequest
from tests.shells import ask

FILES = {
    ".gitconfig": "[http]\n\tproxy = http://127.0.0.1:10809\n[https]\n# proxy = http://127.0.0.1:1\n",
    ".config/pip/pip.conf": "[global]\nproxy = me:SECRET@localhost:3128\nno-proxy = 127.0.0.1:80\n",
    ".bashrc": "export http_proxy=http://127.0.0.1:7890 HF_HOME=/x\n"
    "proxy_on() { export https_proxy=http://127.0.0.1:7891; }\n"
    "alias p='export http_proxy=http://127.0.0.1:7892'\n"
    "  export all_proxy=socks5://127.0.0.1:7893\n"
    "export no_proxy=localhost:80,127.0.0.1:80\n"
    "export HTTPS_PROXY='http://[::1]:7894/'\n"
    "export ftp_proxy=http://mylocalhost:80 rsync_proxy=10.127.0.0.1:80\n",
}
EXPECTED = [
    ("~/.gitconfig", 2, "proxy", "127.0.0.1:10809"),
    ("~/.config/pip/pip.conf", 2, "proxy", "localhost:3128"),
    ("~/.bashrc", 1, "http_proxy", "127.0.0.1:7890"),
    ("~/.bashrc", 6, "https_proxy", "[::1]:7894"),
]


def proxies_of(home: Path, shell: str) -> list[Proxy]:
    """The settings in a home; those of this machine itself are left out."""
    asked = [
        each for each in env.sections(ProbeRequest(user="train")) if each.name == "env.proxies"
    ]
    path = f"{home.parent / 'bin'}:{os.environ['PATH']}"
    readings = ask(shell, asked, {"PATH": path})
    for each in env.sections(ProbeRequest()):
        readings.sections.setdefault(each.name, Reading(0, "", "not asked"))
    assert "SECRET" not in readings.sections["env.proxies"].text
    state = env.parse(readings)
    assert state.proxies is not None
    return [each for each in state.proxies if each.path.startswith("~")]


def test_lines_that_set_a_proxy(home: Path, shell: str) -> None:
    """Not comments, functions, aliases and lists of exceptions; no password leaves the node."""
    for name, text in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    found = proxies_of(home, shell)
    assert [(each.path, each.line, each.name, each.address) for each in found] == EXPECTED


def test_whether_a_program_listens(home: Path, shell: str) -> None:
    """A port that is bound, and not listened on, is no proxy."""
    with socket.socket() as heard, socket.socket() as bound:
        for each in (heard, bound):
            each.bind(("127.0.0.1", 0))
        heard.listen()
        ports = [each.getsockname()[1] for each in (heard, bound)]
        (home / ".gitconfig").write_text(
            "".join(f"[http]\n\tproxy = http://127.0.0.1:{port}\n" for port in ports)
        )
        listens = [each.listens for each in proxies_of(home, shell) if "git" in each.path]
    assert listens == [True, False]


def test_the_session_alone_shows_it() -> None:
    """What a line sets is not reported twice; another machine's proxy is not judged."""
    launcher = "http_proxy=http://127.0.0.1:7890\nHTTPS_PROXY=http://...@127.0.0.1:3128/"
    others = "FTP_PROXY=http://10.0.0.9:1\nno_proxy=127.0.0.1:80\nNCCL_DEBUG=WARN"
    lines = "/etc/profile.d/p.sh\t1\thttp_proxy\t127.0.0.1:7890\nlistens 0C38"
    readings = {each.name: Reading(0, "", "not asked") for each in env.sections(ProbeRequest())}
    readings["env.launcher"] = Reading(0, f"{launcher}\n{others}")
    readings["env.proxies"] = Reading(0, lines)
    state = env.parse(Readings(readings))
    assert state.launcher == {"NCCL_DEBUG": "WARN"}
    assert state.proxies is not None
    found = [(each.path, each.name, each.address, each.listens) for each in state.proxies]
    assert found == [
        ("/etc/profile.d/p.sh", "http_proxy", "127.0.0.1:7890", False),
        ("", "HTTPS_PROXY", "127.0.0.1:3128", True),
    ]
