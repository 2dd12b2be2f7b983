"""Runs podman and parses its output, for the lab's containers only."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_node.lab.machine import as_root

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
    """Parse the output of `podman ps --format json`, by container name."""
    found: list[dict[str, Any]] = json.loads(text or "[]") or []
    read = [
        Container(item["Names"][0], str(item["State"]).lower(), item.get("Labels") or {})
        for item in found
    ]
    return {container.name: container for container in read}


def pid(container: str) -> int:
    """Return the process id, on this machine, of the container's process 1."""
    return int(podman("inspect", "--format", "{{.State.Pid}}", container).stdout)


def remove(container: str) -> None:
    """Remove a container at once, running or not, if it exists."""
    podman("rm", "--force", "--ignore", container)
