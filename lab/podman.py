"""Speaks to podman, and reads what it says, about the lab's own containers and network only."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab import roster
from lab.machine import as_root

LABEL = "gpu-node.lab"
REPOSITORY_LABEL = "gpu-node.lab.repository"
RECIPE_LABEL = "gpu-node.lab.recipe"
SYSTEMD = Path("/run/systemd/system")


@dataclass(frozen=True)
class Container:
    """One of the lab's containers as podman lists it."""

    name: str
    state: str
    labels: dict[str, str]

    @property
    def running(self) -> bool:
        """Whether it runs right now."""
        return self.state == "running"


def podman(
    *args: str | Path, check: bool = True, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run podman with runc (crun refuses hybrid cgroups) and the cgroup manager that works here."""
    manager = "systemd" if SYSTEMD.is_dir() else "cgroupfs"
    chosen: Sequence[str] = ("podman", "--runtime", "runc", "--cgroup-manager", manager)
    return as_root([*chosen, *args], check=check, timeout=timeout)


def containers() -> dict[str, Container]:
    """The lab's containers, running or not, whichever clone they were started from."""
    listed = podman("ps", "--all", "--filter", f"label={LABEL}=1", "--format", "json")
    return parse_containers(listed.stdout)


def parse_containers(text: str) -> dict[str, Container]:
    """What `podman ps --format json` says, by container name."""
    found: list[dict[str, Any]] = json.loads(text or "[]") or []
    read = [
        Container(item["Names"][0], str(item["State"]).lower(), item.get("Labels") or {})
        for item in found
    ]
    return {container.name: container for container in read}


def ensure_network() -> None:
    """Leave the lab's network in place."""
    if podman("network", "exists", roster.NETWORK, check=False).returncode == 0:
        return
    labels = ["--label", f"{LABEL}=1"]
    podman("network", "create", *labels, "--disable-dns", "--subnet", roster.SUBNET, roster.NETWORK)


def remove_network() -> None:
    """Remove every network that carries the lab's label."""
    listed = podman("network", "ls", "--filter", f"label={LABEL}=1", "--format", "{{.Name}}")
    for name in listed.stdout.split():
        podman("network", "rm", "--force", name)


@cache
def version() -> tuple[int, ...]:
    """podman's version: 3 cannot name a container's interface yet."""
    said = podman("version", "--format", "{{.Client.Version}}").stdout.strip()
    return tuple(int(part) for part in said.split("-")[0].split(".")[:2])


def network_options(address: str, interface: str) -> list[str]:
    """How to ask for a fixed address, and for the interface's name where podman can do that.

    The MAC is fixed too: neighbours remember it longer than a reset takes.
    """
    mac = mac_address(address)
    if version() < (4, 0):
        return ["--network", roster.NETWORK, "--ip", address, "--mac-address", mac]
    return ["--network", f"{roster.NETWORK}:ip={address},mac={mac},interface_name={interface}"]


def mac_address(address: str) -> str:
    """A locally administered MAC made from an IPv4 address."""
    return ":".join(["02", "00", *(f"{int(part):02x}" for part in address.split("."))])


def name_interface(container: str, interface: str) -> None:
    """Name the interface from outside where podman could not."""
    if version() >= (4, 0):
        return
    pid = podman("inspect", "--format", "{{.State.Pid}}", container).stdout.strip()
    link = ["nsenter", "--target", pid, "--net", "ip", "link", "set"]
    as_root([*link, "eth0", "down"])
    as_root([*link, "eth0", "name", interface])
    as_root([*link, interface, "up"])


def remove(container: str) -> None:
    """Remove a container at once, running or not; none there is fine."""
    podman("rm", "--force", "--time", "0", "--ignore", container)
