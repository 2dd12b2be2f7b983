"""What `gpu-node lab status` and `break` print, and what the README says is left of the lab."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from subprocess import CompletedProcess
from threading import Barrier

import pytest
from click.testing import CliRunner

from gpu_node.cli.lab import lab
from gpu_node.deploy.files import downloads as controller
from gpu_node.lab import disks, lock, machine, nodes, podman, prerequisites, roster

HERE = {podman.REPOSITORY_LABEL: str(roster.REPOSITORY)}
# What podman 3 and 4 list of each machine, and the state that is shown; None: no podman.
STATES = {
    "no podman": (None, ["absent"] * 4),
    "podman 3": ("null\n", ["absent"] * 4),
    "podman 4": ("", ["absent"] * 4),
    "mixed": (
        json.dumps(
            [
                {"Names": [roster.PREFIX + name], "State": state, "Labels": labels}
                for name, state, labels in [
                    ("a100-01", "running", HERE),
                    ("v100-01", "Running", HERE),
                    ("v100-02", "exited", None),
                    ("mirror", "running", {podman.REPOSITORY_LABEL: "/else"}),
                ]
            ]
        ),
        ["running", "running, no SSH", "exited ()", "running (/else)"],
    ),
}


@pytest.mark.parametrize(("listed", "states"), STATES.values(), ids=STATES)
def test_status(listed: str | None, states: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes that run are asked, at once: each without SSH takes seconds."""
    together = Barrier(2)
    greetings = {"10.168.144.4": b"SSH-2.0-x\r\n", "10.168.144.5": b""}
    servers = []

    def connect(place: tuple[str, int], timeout: float) -> socket.socket:
        together.wait(timeout=30)
        here, there = socket.socketpair()
        here.settimeout(0.1)
        there.sendall(greetings[place[0]])
        servers.append(there)
        return here

    def ps(*words: str) -> CompletedProcess[str]:
        assert listed is not None, words
        return CompletedProcess(words, 0, listed, "")

    monkeypatch.setattr(prerequisites, "which", lambda _: None if listed is None else "podman")
    monkeypatch.setattr(podman, "podman", ps)
    monkeypatch.setattr(socket, "create_connection", connect)
    output = CliRunner().invoke(lab, ["status"]).stdout
    wanted = [[*each, state] for each, state in zip(nodes.machines(), states, strict=True)]
    rows = [line.split(maxsplit=2) for line in output.splitlines()]
    assert rows == [["node", "address", "state"], *wanted]
    for server in servers:
        server.close()


FAULT = "cmake-links-gone"
GONE = "rm: cannot remove '/a': No such file\nrm: cannot remove '/b': No such file\n"
NOT_CONVERGED = (
    "Error: a100-01: found it not converged ({}); allowed: a converged node, for "
    f"{FAULT}; next: gpu-node deploy inventories/lab.py --limit a100-01"
)
TOO = (
    "a100-01 is as found: its own faults are reported, too, and may hide this one. "
    "To see it alone, converge, then break it again."
)
RESET = "The next converge repairs it. As found again: gpu-node lab reset a100-01"
STOPPED = "Error: a100-01: found it exited; allowed: running; next: gpu-node lab up"


@pytest.mark.parametrize(
    ("as_found", "code", "stderr", "state", "says"),
    [
        (False, 0, "", "running", RESET),
        (True, 0, "", "running", TOO),
        (True, 1, GONE, "running", NOT_CONVERGED.format("rm: cannot remove '/b': No such file")),
        (False, 3, "", "running", NOT_CONVERGED.format("exit code 3")),
        (True, 255, "Error: container state improper", "exited", STOPPED),
    ],
)
def test_break(
    as_found: bool,
    code: int,
    stderr: str,
    state: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A node that was as found stays so, whether the fault was injected completely or in part."""
    marked: list[str] = []
    done = CompletedProcess([], code, "", stderr)
    container = podman.Container(roster.NODES["a100-01"].container, state, {})
    monkeypatch.setattr(lock, "file", lambda: tmp_path / "lock")
    monkeypatch.setattr(nodes, "require_up", lambda: None)
    monkeypatch.setattr(disks, "mark_complete", marked.append)
    monkeypatch.setattr(disks, "is_as_found", lambda _: as_found)
    monkeypatch.setattr(nodes, "execute", lambda *_, **__: done)
    monkeypatch.setattr(podman, "containers", lambda: {container.name: container})
    result = CliRunner().invoke(lab, ["break", FAULT])
    assert (result.exit_code, result.output.splitlines()[-1]) == (bool(code), says)
    assert marked == (["a100-01"] if as_found else [])


@pytest.mark.parametrize(
    ("change", "as_found"),
    [
        ("cat fstab >a; cat a >fstab; rm a", True),  # a boot writes some anew
        ("echo '/dev/sda /b' >>fstab", False),
        ("touch security/limits.d/99-gpu-node.conf", False),
        ("rm ../../complete", False),  # a reset that was cut off
        (": >../../complete", False),  # the disk is of an earlier release
    ],
)
def test_a_node_is_as_found(
    change: str, as_found: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That is read from its disk: from what is in its /etc."""
    monkeypatch.setenv("GPU_NODE_LAB_CACHE", str(tmp_path))
    monkeypatch.setattr(disks, "as_root", machine.run)
    etc = disks.home("a100-01") / "upper" / "etc"
    (etc / "security" / "limits.d").mkdir(parents=True)
    (etc / "fstab").write_text("tmpfs /scratch tmpfs size=2G 0 0\n")
    disks.mark_complete("a100-01")
    subprocess.run(["sh", "-euc", change], cwd=etc, check=True)
    assert disks.is_as_found("a100-01") == as_found


def test_the_readme_names_what_make_clean_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders are the defaults of the code."""
    for variable in ("GPU_NODE_LAB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    fetched = Path("~") / controller.cache().relative_to(Path.home())
    readme = " ".join((roster.REPOSITORY / "README.md").read_text(encoding="utf-8").split())
    assert f"`sudo rm -rf {roster.cache()} {fetched}`" in readme
