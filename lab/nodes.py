"""Starts, stops, resets and reads the lab's nodes, one container each."""

import hashlib
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_node.lab import (
    answering,
    disks,
    hardware,
    inside,
    keys,
    limits,
    lock,
    mirror,
    network,
    podman,
    roster,
    tree,
)
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import as_root

# The steps of a boot before sshd: the file systems of fstab, with /dev/shm.
BOOT = """\
mkdir -p /run/sshd
mount -o remount /dev/shm 2>/dev/null
mount /scratch 2>/dev/null
exec /usr/sbin/sshd -D -e
"""
ALWAYS = [
    *["--log-driver=k8s-file", "--network=none", "--no-hosts", "--systemd=false"],
    *["--stop-timeout=0", "--security-opt=apparmor=unconfined", "--pids-limit=-1"],
]
SHARED_MEMORY = ["--shm-size=64m"]
CAPABILITIES = ("SYS_ADMIN",)


def reset(names: Iterable[str] | None = None) -> None:
    """Reset the nodes to as found: new disk, new container, the host key pinned.

    All of them if none is named.
    """
    chosen = [roster.node(name) for name in names or roster.NODES]
    with lock.held():
        require_up()
        keys.pin([node.name for node in chosen])  # logins to them use these keys
        _each(_make_as_found, chosen)


def _make_as_found(node: roster.Node) -> None:
    disks.mark_incomplete(node.name)
    podman.remove(node.container)
    disks.make_as_found(node.name)
    run(node)
    if script := disks.leftovers(node.name):
        execute(node.name, script, check=True)
    answering.wait(node)
    disks.mark_complete(node.name)


def _each(work: Callable[[roster.Node], None], chosen: Sequence[roster.Node]) -> None:
    """Run a function for several nodes in parallel; an error is raised when all have ended."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(work, chosen))


@lock.alone
def put_back(names: Iterable[str], state: str) -> None:
    """Boot the nodes again on their disks, as of the state that `disks.keep` kept."""
    _each(lambda node: _put_back(node, state), [roster.node(name) for name in names])


def _put_back(node: roster.Node, state: str) -> None:
    podman.remove(node.container)
    disks.put_back(node.name, state)
    run(node)
    answering.wait(node)


@lock.alone
def recreate(name: str, cap_drop: Sequence[str] = ()) -> None:
    """A new container on the disk as it is now: a reboot, if need be with fewer capabilities."""
    node = roster.node(name)
    podman.remove(node.container)
    disks.mount(name)
    run(node, cap_drop)
    answering.wait(node)


@lock.alone
def put_under(name: str, layer: Path) -> None:
    """Boot a node again with a layer under its disk, as if its packages were installed."""
    node = roster.node(name)
    podman.remove(node.container)
    disks.put_under(name, layer)
    run(node)
    answering.wait(node)


def run(node: roster.Node, cap_drop: Sequence[str] = ()) -> None:
    """Start a node's container on its mounted disk."""
    added = [f"--cap-add={name}" for name in CAPABILITIES if name not in cap_drop]
    dropped = [f"--cap-drop={name}" for name in cap_drop if name not in CAPABILITIES]
    options = ["--hostname", node.name, *labels(), *ALWAYS, *SHARED_MEMORY, *added, *dropped]
    options += limits.podman_options()
    boot = ["--rootfs", str(disks.root(node.name)), "/bin/sh", "-c", BOOT]
    podman.podman("run", "--detach", "--name", node.container, *options, *boot)
    pid = inside.pid(node.container)
    hardware.power_on(pid)
    network.connect(node.name, pid, node.interface, node.address)


def labels() -> list[str]:
    """Labels that identify the lab's containers, and the clone that started them."""
    values = {
        podman.LABEL: "1",
        podman.REPOSITORY_LABEL: str(roster.REPOSITORY),
        podman.RECIPE_LABEL: recipe(),
    }
    return [f"--label={key}={value}" for key, value in values.items()]


def recipe() -> str:
    """A hash of all that a node is made from; if it differs, the node is out of date."""
    parts = [tree.recipe(), mirror.recipe(), hardware.script(), BOOT, *ALWAYS, *SHARED_MEMORY]
    parts += [disks.as_found(name) + disks.leftovers(name) for name in roster.NODES]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


@lock.alone
def stop(name: str) -> None:
    """Stop a node as if its power had failed; its disk stays."""
    podman.podman("stop", "--time", "0", roster.node(name).container)


def start(name: str) -> None:
    """Boot a stopped node on its disk as it is."""
    recreate(name)


def execute(name: str, script: str, check: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a POSIX sh script as root on the node, beside its sshd; the script is one argument."""
    done = inside.run(roster.node(name).container, name, script)
    if check and done.returncode != 0:
        output = done.stderr.strip() or done.stdout.strip()
        raise LabError(f"{name}: a script of the lab failed ({done.returncode}): {output}")
    return done


def logs(name: str) -> str:
    """Return the log of the node's sshd since its container was made."""
    done = podman.podman("logs", roster.node(name).container)
    return done.stdout + done.stderr


def require_up() -> None:
    """Refuse if the lab is not up, or belongs to another clone."""
    found = podman.containers().get(roster.PREFIX + roster.MIRROR)
    if found is None or not tree.place().is_dir():
        raise LabError("found no lab that is up; next: gpu-node lab up")
    home = found.labels.get(podman.REPOSITORY_LABEL)
    if home != str(roster.REPOSITORY):
        raise LabError(f"found the lab of the clone in {home}; next: gpu-node lab up, run here")


def require_running(name: str) -> None:
    """Refuse if the node does not run."""
    container = podman.containers().get(roster.node(name).container)
    if container is None or not container.running:
        found = container.state if container else "absent"
        raise LabError(f"{name}: found it {found}; allowed: running; next: gpu-node lab up")


def status() -> list[tuple[str, str, str]]:
    """Name, address and state of every machine of the lab; `absent` if it does not exist."""
    found = podman.containers()
    with ThreadPoolExecutor() as pool:  # a node without SSH takes two seconds
        rows = pool.map(lambda machine: _status(found, *machine), machines())
    return list(rows)


def _status(found: dict[str, podman.Container], name: str, address: str) -> tuple[str, str, str]:
    word = state(found, name)
    silent = word == "running" and name in roster.NODES and not answering.greets(address)
    return name, address, f"{word}, no SSH" if silent else word


def all_absent() -> list[tuple[str, str, str]]:
    """`status` of a machine that has no podman yet."""
    return [(name, address, state({}, name)) for name, address in machines()]


def machines() -> list[tuple[str, str]]:
    """Name and address of every node and of the mirror."""
    nodes = [(node.name, node.address) for node in roster.NODES.values()]
    return [*nodes, (roster.MIRROR, roster.MIRROR_ADDRESS)]


def state(found: dict[str, podman.Container], name: str) -> str:
    """Return a machine's state in one word, with the clone's path if another one started it."""
    container = found.get(roster.PREFIX + name)
    if container is None:
        return "absent"
    home = container.labels.get(podman.REPOSITORY_LABEL, "")
    return container.state if home == str(roster.REPOSITORY) else f"{container.state} ({home})"


def sweep() -> None:
    """Unmount and delete every disk, also of nodes that no roster names any more.

    What was kept of them goes, too.
    """
    nodes = roster.cache() / "nodes"
    for home in nodes.glob("*"):
        disks.remove(home.name)
    as_root(["rm", "-rf", "--one-file-system", nodes, roster.cache() / "states"])
