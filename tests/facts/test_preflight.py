"""The questions of the pre-flight in real shells: bounded, and each missing answer is reported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_node.facts.node import parse_part, sections
from gpu_node.facts.packages import sources as package_sources
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Reading, Section
from gpu_node.facts.probe.request import Joining, ProbeRequest
from gpu_node.facts.ssh import scans
from tests.shells import ask, busybox_machine, machine_with

OWN = Peer(name="v100-02", address="192.0.2.12")
NODES = (Peer(name="a", address="192.0.2.1"), Peer(name="b", address="192.0.2.2", port=2222))
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIARmLr1ddHzaKTPq6utmFfI2IbnTs+x/MRBmhf4hpqgQ"
# Repositories have separate tests, without a network.
_ASKED = sections(ProbeRequest(joining=Joining(OWN)))
OWN_AREAS = ("driver.", "fabric.", "host.", "network.", "clock.", "ssh.")
QUICK = [
    each for each in _ASKED if each.name.startswith(OWN_AREAS) and each.name != "host.repositories"
]


MORE = ("dpkg-query", "getent", "hostname", "ip", "ls", "mktemp", "modinfo", "rm", "ssh-keygen")


def _machine(folder: Path, *less: str, sh: str | None = None) -> dict[str, str]:
    """A machine with what a server has that is no node yet."""
    env = machine_with(folder / "bin", *less, sh=sh)
    for name in MORE:
        found = shutil.which(name)
        if found and name not in less and not (folder / "bin" / name).exists():
            (folder / "bin" / name).symlink_to(found)
    return env | {"TMPDIR": str(folder)}


def _program(folder: Path, name: str, script: str) -> None:
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_every_question_is_answered_here(shell: str, tmp_path: Path) -> None:
    """Whatever shell asks, and whatever `sh` is."""
    env = _machine(tmp_path, sh=shell)
    readings = ask(shell, QUICK, env)
    readings.sections["host.repositories"] = Reading(0, "")
    assert parse_part(readings).unreadable == ()


def test_a_machine_of_busybox_alone_answers(tmp_path: Path) -> None:
    """Every program may be busybox's."""
    readings = ask("busybox", QUICK, busybox_machine(tmp_path / "bin"))
    assert {name for name, each in readings.sections.items() if each.problem or each.rc} <= {
        "ssh.names"
    }


# Stands for ssh-keyscan: it says what it was asked; a shows a key, b drops the first connection.
KEYSCAN = f"""printf '%s\\n' "$*" >>FOLDER/asked
case $* in
  *192.0.2.1) echo '# 192.0.2.1:22 SSH-2.0-OpenSSH_9.2'; echo '192.0.2.1 ssh-ed25519 {KEY}' ;;
  *192.0.2.2)
    if [ -e FOLDER/busy ]; then echo '[192.0.2.2]:2222 ssh-ed25519 {KEY}'; fi
    : >FOLDER/busy
    echo '192.0.2.2: Connection closed by remote host' >&2 ;;
esac"""


def test_host_keys_are_seen(shell: str, tmp_path: Path) -> None:
    """By port; of one kind where a key is pinned; and once more by whom sshd has dropped."""
    env = _machine(tmp_path, "ssh-keyscan")
    _program(tmp_path / "bin", "ssh-keyscan", KEYSCAN.replace("FOLDER", str(tmp_path)))
    section = scans.section(Joining(OWN, NODES, {"a": [f"ssh-ed25519 {KEY}"]}))
    found = ask(shell, [section], env).take(section.name, scans.parse_scans)
    seen = scans.Scan(keys=(f"ssh-ed25519 {KEY}",))
    assert found == {"a": seen, "b": seen}
    asked = sorted((tmp_path / "asked").read_text().splitlines())
    assert asked == [
        "-T 5 -p 22 -t ed25519 192.0.2.1",
        *["-T 5 -p 2222 -t rsa,ecdsa,ed25519 192.0.2.2"] * 2,
    ]


def test_who_is_silent_is_states(tmp_path: Path) -> None:
    """With the last words, if there are any; and a server without the client is unreadable."""
    env = _machine(tmp_path, "ssh-keyscan")
    section = scans.section(Joining(OWN, NODES[:1]))
    readings = ask("dash", [section], env)
    assert readings.take(section.name, scans.parse_scans) is None
    assert "ssh-keyscan is not installed" in readings.unread[0].reason
    _program(tmp_path / "bin", "ssh-keyscan", "echo 'connect: No route to host' >&2")
    found = ask("dash", [section], env).take(section.name, scans.parse_scans)
    assert found == {"a": scans.Scan(why="connect: No route to host")}


def _sources(folder: Path, files: dict[str, str], data: dict[str, Any] | None = None) -> Section:
    """The section about repositories, with files of the system's in a folder."""
    section = package_sources.section(data or {})
    command = section.command
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for path in ("/var/lib/dpkg/status", "/usr/lib/apt/apt-helper", "/etc/os-release"):
        command = command.replace(path, f"{folder}{path}")
    for path in ("/etc/yum.repos.d", "/etc/yum.conf", "/etc/dnf", "/etc/yum/vars"):
        command = command.replace(path, f"{folder}{path}")
    return Section(section.name, command, section.seconds)


def _states(shell: str, section: Section, env: dict[str, str]) -> dict[str, tuple[str, str]]:
    readings = ask(shell, [section], env)
    found = readings.take(section.name, package_sources.parse_sources)
    assert found is not None, readings.unread
    return {each.name: (each.state, each.why) for each in found}


URIS = """echo "'http://192.0.2.1/debian/dists/x/InRelease' a_InRelease 0 "
echo "'http://192.0.2.1/flat/InRelease' b_InRelease 0 "
echo "'http://192.0.2.9/debian/dists/x/InRelease' c_InRelease 0 "
echo "'file:/usr/./InRelease' f_InRelease 0 "
echo "'file:/no/such/InRelease' g_InRelease 0 "
echo "'cdrom:[Debian]/dists/x/InRelease' d_InRelease 0 "
echo "'http://192.0.2.1/debian/dists/x/main/binary-amd64/Packages.xz' e 0 "
"""
# One repository has no Release, as flat ones may; another machine does not answer.
HELPER = """for last in "$@"; do before=${url-}; url=$last; done
case $before in
  */flat/*Release) echo "E: Failed to fetch $before  404  Not Found" >&2; exit 100 ;;
  *192.0.2.9*)
    echo "Err:1 $before"
    echo "E: Failed to fetch $before  Could not connect to 192.0.2.9:80" >&2; exit 100 ;;
esac
: >"$last" """


def test_repositories_of_apt(shell: str, tmp_path: Path) -> None:
    """Each index is fetched into a folder that goes again."""
    env = _machine(tmp_path, "apt-get")
    _program(tmp_path / "bin", "apt-get", URIS)
    section = _sources(tmp_path, {"var/lib/dpkg/status": "Package: x\n"})
    (tmp_path / "usr/lib/apt").mkdir(parents=True)
    _program(tmp_path / "usr/lib/apt", "apt-helper", HELPER)
    before = sorted(tmp_path.iterdir())
    states = _states(shell, section, env)
    assert sorted(tmp_path.iterdir()) == before
    assert {name: state for name, (state, _) in states.items()} == {
        "http://192.0.2.1/debian/dists/x/InRelease": "ok",
        "http://192.0.2.1/flat/InRelease": "ok",
        "http://192.0.2.9/debian/dists/x/InRelease": "bad",
        "file:/usr/./InRelease": "ok",
        "file:/no/such/InRelease": "bad",
        "cdrom:[Debian]/dists/x/InRelease": "bad",
    }
    why = states["http://192.0.2.9/debian/dists/x/InRelease"][1]
    assert why == "Could not connect to 192.0.2.9:80"


REPOSITORIES = """[main]
enabled=1
# no repository
[base]
name=CentOS-$releasever - Base
mirrorlist=http://list.invalid/?release=$releasever&arch=${basearch}&infra=$infra
#baseurl=http://never.invalid/
[extras]
baseurl =
    http://192.0.2.1/$releasever/extras/$basearch/
sslverify=0
[off]
enabled = 0
baseurl=http://off.invalid/
[meta]
metalink=http://meta.invalid/?repo=epel-$releasever
proxy=http://192.0.2.3:3128
[closed]
baseurl=http://closed.invalid/
username=zhang
"""
CURL = """printf '%s\\n' "$*" >>FOLDER/asked
file=
while [ "$#" -gt 1 ]; do [ "$1" != -o ] || file=$2; shift; done
case $1 in
  *list.invalid*) echo 'curl: (6) Could not resolve host: list.invalid' >&2; exit 6 ;;
  *meta.invalid*)
    echo '<url protocol="http">http://192.0.2.4/epel/repodata/repomd.xml</url>' >"$file" ;;
  *) : >"$file" ;;
esac"""


def test_repositories_of_yum(shell: str, tmp_path: Path) -> None:
    """By list, by address, and by metalink; what is turned off is not asked."""
    env = _machine(tmp_path, "apt-get", "curl")
    _program(tmp_path / "bin", "curl", CURL.replace("FOLDER", str(tmp_path)))
    files = {
        "etc/yum.repos.d/a.repo": REPOSITORIES,
        "etc/os-release": 'VERSION_ID="7"\n',
        "etc/yum/vars/infra": "stock\n",
    }
    states = _states(shell, _sources(tmp_path, files), env)
    assert {name: state for name, (state, _) in states.items()} == {
        **{"base": "bad", "extras": "ok", "meta": "ok"},
        "closed": "unknown",
    }
    machine = "release=7&arch=x86_64&infra=stock"
    assert states["base"][1] == (
        f"mirrorlist http://list.invalid/?{machine}: curl: (6) Could not resolve host: list.invalid"
    )
    asked = (tmp_path / "asked").read_text()
    assert "-k http://192.0.2.1/7/extras/x86_64/repodata/repomd.xml" in asked
    assert "--proxy http://192.0.2.3:3128 http://192.0.2.4/epel/repodata/repomd.xml" in asked
    assert "off.invalid" not in asked
    assert "never.invalid" not in asked


PROXY = "http://192.0.2.3:3128"
TELL = 'printf "%s %s\\n" "$https_proxy" "$no_proxy" >>FOLDER/proxies\n'


@pytest.mark.parametrize("named", [True, False])
def test_repositories_are_asked_through_the_proxy(shell: str, tmp_path: Path, named: bool) -> None:
    """Of the inventory: a server that reaches them by nothing else is none without packages."""
    env = _machine(tmp_path, "apt-get", "curl")
    _program(tmp_path / "bin", "curl", (TELL + CURL).replace("FOLDER", str(tmp_path)))
    data = {"proxy_url": PROXY, "proxy_no_proxy": ["10.0.0.0/8", "mirror"]} if named else None
    files: dict[str, Any] = {
        "etc/yum.repos.d/a.repo": REPOSITORIES,
        "etc/os-release": 'VERSION_ID="7"\n',
    }
    _states(shell, _sources(tmp_path, files, data), env)
    given = {*(tmp_path / "proxies").read_text().splitlines()}
    direct = "localhost,127.0.0.1,::1,10.0.0.0/8,mirror"
    assert given == {f"{PROXY} {direct}" if named else " "}


def test_a_lock_that_is_held_is_seen(tmp_path: Path) -> None:
    """By the kernel's list of locks, and the links of who holds it."""
    (section,) = (each for each in _ASKED if each.name == "host.package-lock")
    lock = tmp_path / "lock"
    pattern = r"\/var\/lib\/apt\/lists\/lock"
    assert pattern in section.command
    command = section.command.replace(pattern, str(lock).replace("/", r"\/"))
    holder = f"import fcntl,time; f=open({str(lock)!r},'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
    with subprocess.Popen(
        [sys.executable, "-c", f"{holder}print('held', flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        readings = ask("dash", [Section(section.name, command)])
        process.kill()
    held = readings.take(section.name, package_sources.parse_held)
    assert held is not None
    # This machine's own package manager may be at work beside the test.
    ours = [(each.file, each.pid) for each in held if each.file == str(lock)]
    assert ours == [(str(lock), process.pid)]
