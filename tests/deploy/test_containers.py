"""Which running containers have GPUs, that a reload of systemd would take from them."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from gpu_node.deploy.engine.scripts import text
from gpu_node.facts.probe.process import PROCESS
from tests.deploy.containing import GPU, ID, OWN_DEV, Node
from tests.shells import SHELLS

SHORT = ID[:12]
SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5c0_5f.slice"
CGROUPS = {
    "docker, cgroup v2": [f"0::/system.slice/docker-{ID}.scope"],
    "docker, cgroup v1": [f"11:devices:/docker/{ID}", f"1:name=systemd:/docker/{ID}", "0::/"],
    "podman": [f"0::/machine.slice/libpod-{ID}.scope/container"],
    "containerd": [f"0::{SLICE}/cri-containerd-{ID}.scope"],
    "CRI-O": [f"0::{SLICE}/crio-{ID}.scope"],
    "in another container": [f"0::/system.slice/docker-{64 * 'd'}.scope/kubelet{SLICE}/{ID}"],
}


def found(node: Node, shell: str, user: str = "") -> str:
    """Run the search; return what it names."""
    process = f"gn_process={shlex.quote(PROCESS)} allow_reload=no"
    asked = 'takes_gpus || :; printf %s "$containers"'
    done = node.run(f"set -uf\n{process}\n{text('containers')}\n{asked}", shell, user)
    assert (done.code, done.err) == (0, "")
    return done.out


@pytest.mark.parametrize("cgroup", CGROUPS.values(), ids=CGROUPS)
def test_a_container_is_named(shell: str, cgroup: list[str]) -> None:
    """It is idle: no file is open, and no library is mapped."""
    node = Node()
    node.begin("job", GPU, *cgroup)
    reported = found(node, shell)
    assert reported.startswith(f"container {SHORT} (pid ") and reported.endswith(": sleep)")


def test_a_runtime_without_ids(shell: str) -> None:
    node = Node()
    node.begin("lxc", GPU, "0::/lxc.payload.train")
    node.begin("nspawn", GPU, "0::/machine.slice/machine-train.scope/payload")
    assert found(node, shell).count("container without an id (pid ") == 2


def test_processes_of_one_container(shell: str) -> None:
    """The one that was there first stands for all of them."""
    node = Node()
    more = "for each in 1 2 3 4 5 6 7 8 9 10; do sleep 60 & done"
    node.begin("job", f"{GPU}; {more}", f"0::/docker/{ID}")
    assert found(node, shell).count("container ") == 1


def test_what_is_no_container_with_gpus(shell: str) -> None:
    """Services see the node's /dev; a monitor is in its container's cgroup, not in its /dev."""
    node = Node()
    node.begin("private-tmp", "mount -t tmpfs tmp /tmp", "0::/system.slice/chrony.service")
    node.begin("private-devices", OWN_DEV, "0::/system.slice/other.service")
    node.begin("without", OWN_DEV, f"0::/system.slice/docker-{ID}.scope")
    node.lines += ["sleep 60 &", 'echo $! >"$here/conmon.pid"']
    node.cgroup("conmon", f"0::/machine.slice/libpod-conmon-{ID}.scope")
    assert found(node, shell) == ""


def test_a_node_that_is_a_container(shell: str) -> None:
    """Its own id, which its services have as well, is none of a container on it."""
    own = f"0::/machine.slice/libpod-{64 * 'e'}.scope"
    node = Node()
    node.cgroup("node", f"{own}/init.scope")
    node.begin("service", "mount -t tmpfs tmp /tmp", f"{own}/system.slice/chrony.service")
    assert found(node, shell) == ""
    node.begin("job", GPU, f"{own}/docker/{ID}")
    assert f"container {SHORT} " in found(node, shell)


def test_a_container_with_the_nodes_devices(shell: str) -> None:
    """`--volume /dev:/dev`: its id shows what it is."""
    node = Node()
    node.begin("job", "mount -t tmpfs tmp /tmp", f"0::/system.slice/docker-{ID}.scope")
    assert f"container {SHORT} " in found(node, shell)


def test_a_process_that_has_ended(shell: str) -> None:
    """Its parent has not asked for its exit code: /proc still shows it, without a namespace."""
    node = Node()
    node.begin("job", GPU, f"0::/docker/{ID}")
    node.lines.append('umount "/proc/$(cat "$here/job.pid")/cgroup"')
    node.lines.append("bash -c '(exit 0) & exec sleep 60' & sleep 0.1")
    node.lines.append('kill "$(cat "$here/job.pid")"; sleep 0.1')
    assert found(node, shell) == ""


def test_what_cannot_be_read_counts(shell: str) -> None:
    """A user without root does not see in which namespace a process of root is."""
    node = Node()
    node.begin("service", "mount -t tmpfs tmp /tmp")
    assert "(sleep), which cannot be read" in found(node, shell, user="65534")


def test_without_systemd_nothing_is_reloaded(shell: str) -> None:
    node = Node()
    node.begin("job", GPU, f"0::/docker/{ID}")
    node.lines.append("rmdir /run/systemd/system")
    assert found(node, shell) == ""


def test_the_refusal(shell: str) -> None:
    """It names the container, why, and what to do next."""
    node = Node()
    node.begin("job", GPU, f"0::/docker/{ID}")
    fail = 'fail() { echo "$1"; exit 1; }'
    process = f"gn_process={shlex.quote(PROCESS)}"
    body = f'{fail}\n{process}\n{text("containers")}\nrefuse_reload "the dkms package"'
    done = node.run(f"allow_reload=no\n{body}", shell)
    assert done.code == 1
    for words in ("the dkms package", f"container {SHORT} (pid ", "allow_disruption=true"):
        assert words in done.out
    assert node.run(f"allow_reload=yes\n{body}", shell).code == 0


NAMED = "import ctypes; ctypes.CDLL(None).prctl(15, b'x\\n\\xff\\tz', 0, 0, 0); print(); input()"


def test_a_name_of_any_bytes(shell: str) -> None:
    """It is one line of plain text in a refusal."""
    words = [sys.executable, "-c", NAMED]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        script = f"gn_process=\n{text('containers')}\nname_of /proc/{process.pid}"
        done = subprocess.run([*SHELLS[shell], "-c", script], capture_output=True)
        process.communicate()
    assert done.stdout == b"x???z"
