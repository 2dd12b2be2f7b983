"""What the probe costs a node, counted in processes: a machine's speed does not matter here.

In a new pid namespace the kernel's last pid is the number of processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpu_node.facts.host import settings
from gpu_node.facts.node import sections
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Section, read, render
from gpu_node.facts.probe.request import ProbeRequest
from tests.shells import as_lines, machine_with

pytestmark = pytest.mark.slow

# A node of stand-ins needs about 457, with any number of nodes; of these fabric.switches are 14,
# network.links 10, and each row of readings.yml 2. When each section had a time limit of its own,
# it needed 847 in a cluster of 2 nodes, and 1439 in one of 200.
MOST_PROCESSES = 480
# Each light section is one process, with its shell; a section with a limit of its own is six.
MOST_OF_TWENTY_LIGHT = 30
# These ask ssh about each of the nodes that it may log in to: facts/ssh/mesh.py limits them.
FOR_EACH_LOGIN = ("ssh.known", "ssh.logins")
DASH = str(shutil.which("dash"))
COUNTED = """"$1" "$2" 2>&1 </dev/null
read -r _ _ _ _ last </proc/loadavg
echo "processes $last"
"""
# Every name is an address that leads to this machine; a user has an empty home.
GETENT = """#!/bin/sh
[ "$1" != ahosts ] || {
  shift
  for each; do echo "127.0.0.1 STREAM $each"; done
  exit 0
}
[ "$1" = passwd ] && [ $# = 2 ] || exec REAL "$@"
echo "root:x:0:0:root:HOME:/bin/bash"
"""
IP = """#!/bin/sh
case $* in
  *-batch*) while read -r _ _ address; do echo "$address dev lo src 127.0.0.1"; done ;;
  *route*) for address; do :; done; echo "$address dev lo src 127.0.0.1" ;;
  *) echo "1: lo    inet 127.0.0.1/8 scope host lo" ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A machine with the probe's usual programs, and stand-ins for the network."""
    env = machine_with(tmp_path / "bin", sh="dash")
    (tmp_path / "home").mkdir()
    getent = GETENT.replace("REAL", str(shutil.which("getent")))
    stand_ins = {"getent": getent.replace("HOME", str(tmp_path / "home")), "ip": IP}
    for name, text in stand_ins.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return env


def counted(asked: list[Section], env: dict[str, str], folder: Path) -> int:
    """Run a probe on this machine; return the number of processes it started."""
    script = folder / "script"
    script.write_text(render(asked))
    # Set-up needs root or sudo as well, and some systems grant users no namespace.
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    unshare = [str(shutil.which("unshare")), "--pid", "--fork", "--kill-child", "--mount-proc"]
    given = ["env", *(f"{name}={value}" for name, value in env.items())]
    words = [*root, *unshare, "--", *given, DASH, "-c", COUNTED, "sh", DASH, str(script)]
    done = subprocess.run(words, capture_output=True, timeout=120)
    lines = as_lines(done.stdout)
    assert lines[-1].startswith("processes "), done
    answered = read(lines, asked).sections
    assert not [name for name, each in answered.items() if each.problem]
    return int(lines[-1].split()[1])


def asked_of(nodes: int, mesh: bool) -> list[Section]:
    """What a node of a cluster is asked."""
    peers = tuple(Peer(name=f"n{each}", address=f"127.0.1.{each + 1}") for each in range(nodes))
    request = ProbeRequest(nodes=peers, mesh=mesh, variables=("OMP_NUM_THREADS",))
    return [each for each in sections(request) if each.name not in FOR_EACH_LOGIN]


def test_the_processes_of_a_probe(machine: dict[str, str], tmp_path: Path) -> None:
    """There is a ceiling: a new area must not make it cost much more."""
    assert counted(asked_of(2, mesh=False), machine, tmp_path) <= MOST_PROCESSES


@pytest.mark.parametrize("mesh", [False, True], ids=["", "mesh"])
def test_a_large_cluster_costs_a_node_no_more(
    mesh: bool, machine: dict[str, str], tmp_path: Path
) -> None:
    """No section starts a process for each node of the cluster.

    A time limit that ends before it has started its `sleep` is a process less: the larger number
    of three counts.
    """
    few, many = (
        max(counted(asked_of(nodes, mesh), machine, tmp_path) for _ in range(3))
        for nodes in (2, 200)
    )
    assert abs(many - few) <= 5  # a text of more than 4 KiB is written by one more process


def test_each_setting_costs_no_process(machine: dict[str, str], tmp_path: Path) -> None:
    """Twenty names of each kind cost as many as two."""

    def cost(count: int) -> int:
        names = [f"vm.n{number}" for number in range(count)]
        words = [each.replace(".", "_") for each in names]
        asked = settings.sections(ProbeRequest(sysctl=names, modules=words, services=words))
        return counted([*asked], machine, tmp_path)

    assert cost(20) == cost(2) <= 40


def test_light_sections_share_a_shell(machine: dict[str, str], tmp_path: Path) -> None:
    """Twenty of them cost hardly more than one each."""
    none = counted([], machine, tmp_path)
    light = [Section(f"a.n{number}", "echo x", light=True) for number in range(20)]
    assert counted(light, machine, tmp_path) - none <= MOST_OF_TWENTY_LIGHT


@pytest.mark.parametrize("less", [(), ("timeout",)], ids=["timeout", "no-timeout"])
def test_a_light_section_that_hangs_costs_no_other(
    shell: str, less: tuple[str, ...], tmp_path: Path
) -> None:
    """It alone is late; the others before and after it are read."""
    asked = [
        Section("a.before", "echo before; exit 3", light=True),
        Section("a.hangs", "echo half; sleep 60", seconds=1, light=True),
        Section("a.between", "echo 'it'\\''s größe'", light=True, seconds=1),
        Section("a.dies", "kill -9 $$", seconds=1, light=True),
        Section("a.long", "head -c 2000000 /dev/zero | tr '\\0' x", seconds=1, light=True),
        Section("a.after", "echo $#; pwd >/dev/null", seconds=1, light=True),
    ]
    env = machine_with(tmp_path / "bin", *less, sh=shell)
    script = tmp_path / "script"
    script.write_text(render(asked))
    done = subprocess.run(
        [str(tmp_path / "bin" / "sh"), str(script)],
        env={**os.environ, **env},
        capture_output=True,
        timeout=60,
    )
    assert done.stderr.strip() == b""
    found = read(as_lines(done.stdout), asked).sections
    assert (found["a.before"].rc, found["a.before"].text) == (3, "before")
    assert found["a.hangs"].problem == "no answer within 1 s"
    assert found["a.between"].require() == "it's größe"
    assert found["a.dies"].problem is not None
    assert found["a.long"].problem is not None and "more than a section" in found["a.long"].problem
    assert found["a.after"].rc == 0 and found["a.after"].problem is None


def test_programs_inherit_no_texts_of_the_probe(machine: dict[str, str]) -> None:
    """Light sections have the shared texts, and the programs that they start have not."""
    shared = (("gn_proxy", "a text"),)
    asked = [
        Section("a.one", 'echo "$gn_proxy"; env | grep -c gn_proxy', shared=shared, light=True),
        Section("a.two", "echo two", light=True),
    ]
    done = subprocess.run(
        [DASH, "-c", render(asked)], env={**os.environ, **machine}, capture_output=True
    )
    found = read(as_lines(done.stdout), asked).sections
    assert found["a.one"].text == "a text\n0"
