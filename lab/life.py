"""Brings the whole lab up and takes it down again."""

from gpu_node.lab import (
    answering,
    disks,
    keys,
    limits,
    lock,
    mirror,
    network,
    nodes,
    podman,
    prerequisites,
    roster,
    tree,
)
from gpu_node.lab.kernel import machine
from gpu_node.lab.machine import as_root
from gpu_node.lab.progress import step

SERVE = ["python3", "-m", "http.server", "80", "--directory", "/srv/mirror"]


@lock.alone
def up() -> None:
    """Leave every node answering SSH; those that run already stay as they are."""
    as_root(["true"])  # sudo asks for its password now, and not beneath a spinner
    prerequisites.install()
    keys.make()
    tree.build()
    if not mirror.directory().is_dir():
        with step("packing cmake, wheels and packages for the local mirror"):
            mirror.build()
        podman.remove(roster.PREFIX + roster.MIRROR)  # it would serve what is gone
    roster.REPOSITORY_KEY.write_bytes((mirror.directory() / "repository.asc").read_bytes())
    with step("starting the nodes"):
        remove_strangers()
        network.ensure()
        start_mirror()
        start_nodes()
    tree.remove_outdated()
    mirror.remove_outdated()


def remove_strangers() -> None:
    """Remove the lab's containers that another clone, or an older recipe, started."""
    wanted = {podman.REPOSITORY_LABEL: str(roster.REPOSITORY), podman.RECIPE_LABEL: nodes.recipe()}
    for container in podman.containers().values():
        if any(container.labels.get(key) != value for key, value in wanted.items()):
            podman.remove(container.name)
            disks.remove(container.name.removeprefix(roster.PREFIX))


def start_mirror() -> None:
    """Serve the mirror's directory to the nodes, from the shared tree, which stays read-only."""
    name = roster.PREFIX + roster.MIRROR
    found = podman.containers().get(name)
    if found and found.running and answering.listens(roster.MIRROR_ADDRESS, 80):
        return
    podman.remove(name)
    disks.mount(roster.MIRROR)
    options = ["--hostname", roster.MIRROR, *nodes.labels(), *nodes.ALWAYS]
    options += limits.podman_options()
    volume = f"--volume={mirror.directory()}:/srv/mirror:ro"
    root = ["--rootfs", str(disks.root(roster.MIRROR))]
    podman.podman("run", "--detach", "--name", name, *options, volume, *root, *SERVE)
    network.connect(roster.MIRROR, podman.pid(name), "eth0", roster.MIRROR_ADDRESS)


def start_nodes() -> None:
    """Keep nodes that answer, boot those that do not, and make missing ones."""
    found = podman.containers()
    made = []
    for node in roster.NODES.values():
        container = found.get(node.container)
        if container is None or not disks.is_complete(node.name):
            made.append(node.name)
        elif not container.running or not answering.greets(node.address):
            nodes.start(node.name)
    if made:
        nodes.reset(made)


@lock.alone
def down() -> None:
    """Remove the lab's containers, network and disks; the cache and `.lab/` stay."""
    machine.clear()
    if not prerequisites.which("podman"):
        return
    with step("taking the lab down"):
        for container in podman.containers().values():
            podman.remove(container.name)
        network.remove()
        nodes.sweep()
