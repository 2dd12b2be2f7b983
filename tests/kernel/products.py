"""Calls of the product by the tests on real kernels, and their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpu_node.lab import roster
from gpu_node.lab.kernel.machine import Machine
from tests.e2e.on_lab import DEPLOY, Run, drift, run

# An emulated processor builds a module in a minute.
SECONDS = 900


def findings(inventory: str) -> dict[str, dict[str, Any]]:
    """The report's findings of the only machine, by rule.

    An emulated clock loses seconds under load, and no NTP sets it: that warning is left out.
    """
    (host,) = drift(inventory).json["hosts"].values()
    return {
        each["rule"]: each
        for each in host["findings"]
        if (each["rule"], each["severity"]) != ("clock.skew", "warning")
    }


def deploy(inventory: str, *options: str) -> Run:
    """A converge, for real."""
    return run("pyinfra", "-y", inventory, DEPLOY, *options, seconds=SECONDS)


def write_inventory(machine: Machine, folder: Path) -> str:
    """Write an inventory of the machine, its driver, shared memory and limits; return its path."""
    ssh = {"user": "root", "port": machine.port, "key": str(machine.key)}
    cluster = {
        "cluster": "kernel",
        "defaults": {
            "ssh": {**ssh, "known_hosts": str(machine.known_hosts)},
            "driver": {"version": "535"},
            # More than the half of its memory that it has without a line of fstab.
            "shm": {"size": "600M"},
            "limits": {"nofile": 23456},
        },
        "groups": {"v100": {"gpu": {"model": "V100", "count": 2}}},
        "hosts": {machine.name: {"address": machine.address, "group": "v100"}},
    }
    (folder / "kernel.yml").write_text(yaml.safe_dump(cluster))
    (folder / "kernel.py").write_text((roster.REPOSITORY / "inventories" / "lab.py").read_text())
    return str(folder / "kernel.py")
