"""Jump hosts of the controller's rsync and ssh: as strict as the connection to the node itself."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from paramiko import ECDSAKey

from gpu_node.deploy.workspace.rsync import ssh_to
from gpu_node.facts.ask.via.login import words as via_words
from tests.onboarding.serving import Sshd, serving

MINE = ECDSAKey.generate()
LAX = "StrictHostKeyChecking \x6eo\n ForwardAgent yes\n BatchMode no\n CheckHostIP no"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Sshd]]:
    """Two jump hosts and a node behind them, which know our key."""
    MINE.write_private_key_file(str(tmp_path / "key"))
    names = ("first", "second", "node")
    for name in names:
        (tmp_path / name).mkdir()
    with (
        serving(tmp_path / "first") as first,
        serving(tmp_path / "second") as second,
        serving(tmp_path / "node") as node,
    ):
        for each in (first, second, node):
            each.authorized = [MINE]
        yield [first, second, node]


def configured(
    servers: list[Sshd], known: list[Sshd], node: str, second: str = "", name: str = "config"
) -> str:
    """Write ssh's configuration, known_hosts with keys of some servers, and return the first."""
    home = servers[0].home.parent
    lines = [f"[127.0.0.1]:{each.port} {each.host_key}\n" for each in known]
    (home / "known hosts").write_text("".join(lines))
    ways = {"first": "", "second": second, "node": node}
    blocks = [
        f"Host {name}\n HostName 127.0.0.1\n Port {each.port}\n {way}\n"
        for (name, way), each in zip(ways.items(), servers, strict=True)
    ]
    always = f"Host *\n User root\n IdentityFile {home}/key\n {LAX}\n"
    always += f' UserKnownHostsFile "{home}/known hosts"\n GlobalKnownHostsFile none\n'
    config = home / name
    config.write_text("".join([*blocks, always]))
    return str(config)


def reach(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command on the node."""
    argv = [*words, "node", "echo here"]
    env = {key: value for key, value in os.environ.items() if key != "SSH_AUTH_SOCK"}
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env)


WAYS = [
    ("ProxyJump first", ""),
    ("ProxyJump root@127.0.0.1:FIRST", ""),
    ("ProxyJump first,second", ""),
    ("ProxyJump second", "ProxyJump first"),
    ("ProxyJump ssh://root@127.0.0.1:FIRST", ""),
]


@pytest.mark.parametrize(("node", "second"), WAYS)
def test_jump_hosts_that_are_known(servers: list[Sshd], node: str, second: str) -> None:
    """One or two of them, as ssh's configuration names them; rsync takes the same words."""
    node = node.replace("FIRST", str(servers[0].port))
    config = configured(servers, servers, node, second, "100% config")
    words = ssh_to({"ssh_config_file": config}, "node")
    done = reach(words)
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr
    assert servers[0].forwarded
    assert not any(each.agent_asked for each in servers)
    assert split_by_rsync(words, servers[0].home) == words


def split_by_rsync(words: list[str], folder: Path) -> list[str]:
    """What rsync makes of the command after -e: it splits it by rules of its own."""
    program = folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nfor each; do echo "$each"; done >{folder}/called\nexit 1\n')
    program.chmod(0o755)
    copy = ["rsync", "-e", shlex.join(words), "/etc/hostname", "node:/nowhere"]
    path = f"{program.parent}:{os.environ['PATH']}"
    subprocess.run(copy, env={**os.environ, "PATH": path}, capture_output=True, timeout=60)
    return ["ssh", *(folder / "called").read_text().splitlines()[: len(words) - 1]]


@pytest.mark.parametrize("unknown", [0, 1])
@pytest.mark.parametrize(("node", "second"), WAYS[2:4])
def test_a_jump_host_that_is_not(servers: list[Sshd], node: str, second: str, unknown: int) -> None:
    """No run logs in to it whatever the configuration allows, and its key is not saved."""
    known = [each for number, each in enumerate(servers) if number != unknown]
    config = configured(servers, known, node, second)
    before = (Path(config).parent / "known hosts").read_text()
    done = reach(ssh_to({"ssh_config_file": config}, "node"))
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr
    assert servers[unknown].attempts == [] and servers[2].attempts == []
    assert (Path(config).parent / "known hosts").read_text() == before


@pytest.mark.parametrize("is_known", [True, False])
def test_a_jump_host_of_clustershells_ssh(servers: list[Sshd], is_known: bool) -> None:
    """It is as strict: what the configuration allows for a jump host, a report does not."""
    known = servers if is_known else servers[1:]
    config = configured(servers, known, "ProxyJump first")
    before = (Path(config).parent / "known hosts").read_text()
    argv = [*via_words("node", {"ssh_config_file": config}), "echo here"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == ((0, "here\n") if is_known else (255, "")), done.stderr
    assert bool(servers[0].attempts) is bool(servers[2].attempts) is is_known
    assert not any(each.agent_asked for each in servers)
    assert (Path(config).parent / "known hosts").read_text() == before


def test_no_password_is_asked_for(servers: list[Sshd]) -> None:
    """Neither on a jump host nor on the node: BatchMode holds for both."""
    servers[0].authorized = []
    config = configured(servers, servers, "ProxyJump first")
    done = reach(ssh_to({"ssh_config_file": config}, "node"))
    assert done.returncode == 255
    assert set(servers[0].attempts) == {"publickey"} and not servers[0].forwarded
    assert "Permission denied" in done.stderr


def test_a_folder_with_a_percent(servers: list[Sshd], tmp_path: Path) -> None:
    """ssh takes a % in the name of known_hosts for a token."""
    known = tmp_path / "100% known" / "hosts"
    known.parent.mkdir()
    known.write_text(f"[127.0.0.1]:{servers[2].port} {servers[2].host_key}\n")
    data = {
        **{"ssh_known_hosts_file": str(known), "ssh_key": str(tmp_path / "key")},
        **{"ssh_user": "root", "ssh_port": servers[2].port, "ssh_config_file": "/dev/null"},
    }
    words = [*ssh_to(data, "127.0.0.1"), "127.0.0.1", "echo here"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr


def test_no_jump_host(servers: list[Sshd]) -> None:
    """The user's own command, or nothing, stays as it is."""
    for way in ("", "ProxyJump none", "ProxyCommand nc 127.0.0.1 %p"):
        data = {"ssh_config_file": configured(servers, servers, way)}
        assert "ProxyCommand" not in " ".join(ssh_to(data, "node"))


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("-oProxyCommand=x", "the jump host '-oProxyCommand=x' is no"),
        ("a b", "the jump host 'a b' is no"),
        ("$(touch x)", "is no"),
        ("a,,", "the jump host '' is no"),
        ("u@-x", "is no"),
        ("again", "more than 8 jump hosts"),
    ],
)
def test_what_is_no_jump_host(wire: Path, printed: str, says: str) -> None:
    """It is named, whichever ssh lets it pass."""
    (wire.parent / "bin" / "ssh").write_text(f"#!/bin/sh\necho 'proxyjump {printed}'\n")
    with pytest.raises(ValueError) as refused:
        ssh_to({}, "node")
    assert says in str(refused.value)


def test_an_address_of_ipv6(wire: Path) -> None:
    """Without its brackets, and with its zone."""
    answer = 'case $* in *node) echo "proxyjump u@[fe80::1%eth0]:2201" ;; esac'
    (wire.parent / "bin" / "ssh").write_text(f"#!/bin/sh\n{answer}\n")
    *_, option = ssh_to({"ssh_config_file": "/my config"}, "node")
    words = shlex.split(option.removeprefix("ProxyCommand="))
    assert words[-1] == "fe80::1%%eth0" and words[-3:-1] == ["-W", "[%h]:%p"]
    assert shlex.join(words[-9:-3]) == "-F '/my config' -l u -p 2201"
