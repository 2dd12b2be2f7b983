"""What a killed run left is removed, and nothing else of this machine is touched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_node.lab import inside, network, nodes, podman, roster
from gpu_node.lab.errors import LabError
from gpu_node.lab.kernel import disk, machine
from gpu_node.lab.machine import run


@pytest.mark.parametrize(
    ("is_qemu", "is_in_use", "killed"),
    [
        (True, False, True),
        (False, False, False),  # its pid was reused
        (True, True, False),  # the process that started it lives, and holds the lock
    ],
)
def test_a_virtual_machine_whose_starter_was_killed(
    is_qemu: bool, is_in_use: bool, killed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is stopped if the command line is that of its qemu; its disk goes unless it is in use."""
    monkeypatch.setattr(roster, "STATE", tmp_path)
    left = machine.home("k-01")
    left.mkdir(parents=True)
    words = ["-pidfile", str(left / "qemu.pid")] if is_qemu else []
    with subprocess.Popen(
        ["sh", "-c", "echo; read forever", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # before that, /proc may show no command line yet
        (left / "qemu.pid").write_text(f"{process.pid}\n")
        lock = machine.taken("k-01") if is_in_use else None
        machine.clear()
        if lock:
            lock.close()
        if not killed:
            process.terminate()
        assert (process.wait(30), left.exists()) == (-9 if killed else -15, is_in_use)


def test_disks_of_virtual_machines_that_run_stay_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A build of other disks, in another clone, removes those that no machine runs from."""
    monkeypatch.setenv("GPU_NODE_LAB_CACHE", str(tmp_path))
    monkeypatch.setattr(disk, "as_root", run)
    old, used, unfinished = (tmp_path / f"kernel-{name}" for name in ("old", "used", "building-1"))
    for place in (old, used, unfinished):
        place.mkdir()
        if place != unfinished:
            (place / "kernels").write_text("6.1.0-1-amd64\n6.1.0-1-cloud-amd64\n")
    monkeypatch.setattr(disk, "recipe", lambda: "used")
    with disk.in_use():
        monkeypatch.setattr(disk, "recipe", lambda: "now")
        disk.remove_outdated()
        assert [*tmp_path.iterdir()] == [used]
    disk.remove_outdated()
    assert not used.exists()


def test_the_ports_of_a_killed_run_are_deleted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before one is made anew, and all of them with the network."""
    for name in ("ip", "nsenter"):
        (tmp_path / name).write_text('#!/bin/sh\necho "${0##*/} $*" >>"${0%/*}/calls"\n')
        (tmp_path / name).chmod(0o755)

    def as_root(argv: Sequence[str], *, stdin: str) -> None:
        shell = ["/bin/sh", *argv[1:]]
        subprocess.run(shell, input=stdin, env={"PATH": str(tmp_path)}, text=True, check=True)

    monkeypatch.setattr(network, "as_root", as_root)
    ports = [network.port(name) for name, _ in nodes.machines()]
    network.connect("a100-01", 1, "bond0", "10.168.144.4")
    network.remove()
    first, second, *_, last = calls = (tmp_path / "calls").read_text().splitlines()
    assert first == f"ip link delete {ports[0]}"
    assert second.startswith(f"ip link add {ports[0]} type veth peer name bond0 address 02:00:0a:")
    assert {f"ip link delete {port}" for port in ports} <= {*calls[2:]}
    assert last == f"ip link delete {network.BRIDGE}"


def test_a_script_runs_in_no_other_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After a restart of the container, its old number may belong to any process of ours."""
    monkeypatch.setattr(inside, "sudo", list)
    monkeypatch.setattr(podman, "pid", lambda _: os.getpid())
    with pytest.raises(LabError, match="v100-01: found it not running; next: gpu-node lab up"):
        nodes.execute("v100-01", f"touch {tmp_path}/here")
    assert not (tmp_path / "here").exists()
