"""The wheel, installed as by pipx: its commands run to their end, outside of the repository.

Only `gpu-node` is in PATH, not `pyinfra`. The lab is that of the installation.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpu_node.lab import podman, roster
from tests.e2e.conftest import come_back
from tests.e2e.on_lab import MANAGED, SECONDS, Run
from tests.release import built, installed

pytestmark = pytest.mark.lab_slow

SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Installation:
    """Where gpu-node is installed: a folder with its command alone, and one to work in."""

    commands: Path
    work: Path

    def run(self, *words: str) -> Run:
        """Run `gpu-node` in the work folder, without a terminal."""
        kept = {key: os.environ[key] for key in ("HOME", "GPU_NODE_LAB_CACHE") if key in os.environ}
        done = subprocess.run(
            ["gpu-node", *words],
            cwd=self.work,
            env={**kept, "PATH": f"{self.commands}:{SYSTEM}", "COLUMNS": "80"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Run(done.returncode, done.stdout, done.stderr)

    def typed(self, output: str, label: str, *options: str) -> Run:
        """Run the command that an output has behind a label, as a user who copies the line."""
        (line,) = [line for line in output.splitlines() if line.startswith(f"{label}: ")]
        program, *words = shlex.split(line.removeprefix(f"{label}: "))
        assert program == "gpu-node"
        return self.run(*words, *options)


def on(node: str, script: str) -> str:
    """What a script prints on a node, run by podman beside its sshd."""
    container = roster.NODES[node].container
    return podman.podman("exec", container, "sh", "-euc", script).stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The wheel in a new environment; at the end the lab is this clone's again."""
    folder = tmp_path_factory.mktemp("wheel")
    programs = installed(folder / "environment", built(folder))
    installation = Installation(folder / "commands", folder / "work")
    installation.commands.mkdir()
    installation.work.mkdir()
    (installation.commands / "gpu-node").symlink_to(programs / "gpu-node")
    try:
        yield installation
    finally:
        come_back()


@pytest.fixture(scope="module")
def up(wheel: Installation) -> str:
    """What `lab up` prints on stderr, its last line being the command of the first report."""
    done = wheel.run("lab", "up")
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    assert [*(f"{node.name} running" for node in roster.NODES.values()), "mirror running"] == [
        f"{row[0]} {row[2]}" for row in rows[1:]
    ]
    return done.err


@pytest.fixture(scope="module")
def report(wheel: Installation, up: str) -> Run:
    """The first report of the lab."""
    return wheel.typed(up, "report")


def test_the_work_folder_is_empty(wheel: Installation, report: Run) -> None:
    """`lab up` and a report write nothing where they are typed."""
    assert report.code == 2, report.err
    assert list(wheel.work.iterdir()) == []


def test_a_rule_is_explained(wheel: Installation, report: Run) -> None:
    """The one that the report names, and one by its name."""
    (more,) = [line for line in report.out.splitlines() if line.startswith("more: ")]
    _, _, rule = more.split(";")[0].removeprefix("more: ").split()
    assert rule in wheel.run("explain", rule).out
    explained = wheel.run("explain", "shm.too-small")
    assert explained.code == 0 and "Remounts /dev/shm" in explained.out


def test_init_writes_an_inventory_that_works(wheel: Installation, up: str) -> None:
    """Of two nodes, with a key and a known_hosts file; the next command is the printed one."""
    lab = Path(shlex.split(up.splitlines()[-1])[-1]).parents[1] / ".lab"
    nodes = [f"{name}={roster.NODES[name].address}" for name in MANAGED]
    access = ["--key", str(lab / "id_ed25519"), "--known-hosts", str(lab / "known_hosts")]
    done = wheel.run("init", "cluster", *nodes, *access)
    assert done.code == 2, done.err  # two drivers that differ
    assert {each.name for each in (wheel.work / "cluster").iterdir()} == {
        *("site.yml", "site.py", "known_hosts")
    }
    written = yaml.safe_load((wheel.work / "cluster" / "site.yml").read_text())
    assert {name: host["address"] for name, host in written["hosts"].items()} == {
        name: roster.NODES[name].address for name in MANAGED
    }
    assert "2 nodes, 2 with drift: " in done.out
    again = wheel.run(*shlex.split(done.err.splitlines()[-1].split("then: gpu-node ")[1]))
    assert again.code == 2 and "2 nodes, 2 with drift: " in again.out


def test_deploy_repairs_and_proves(wheel: Installation, report: Run) -> None:
    """The command that the report prints; read by df, fstab, PAM's file, cmake and modinfo."""
    done = wheel.typed(report.out, "repair", "--yes")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == next(
        line for line in report.out.splitlines() if line.startswith("2 nodes, ")
    )
    assert "2 nodes, 2 ok: no problems" in done.out.splitlines()
    for node in MANAGED:
        assert on(node, "df --output=size -B1 /dev/shm | tail -n 1").strip() == str(8 << 30)
        assert "size=8G" in on(node, "grep /dev/shm /etc/fstab")
        assert on(node, "su -l root -c 'ulimit -Sn'") == "16384"
        assert on(node, "/usr/local/bin/cmake --version").startswith("cmake version 3.25.2")
        assert on(node, 'cat "/sys/module/nvidia/version"') == "535.154.05"


def test_nothing_is_left(wheel: Installation, report: Run) -> None:
    again = wheel.typed(report.out, "repair", "--yes")
    assert (again.code, again.err) == (0, "Nothing to repair.\n")
