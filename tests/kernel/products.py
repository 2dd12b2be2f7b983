"""What the tests on real kernels ask of the product, and how its answers are read."""

from __future__ import annotations

from typing import Any

from lab.kernel.machine import Machine
from tests.e2e.running import DEPLOY, Run, drift, run

# An emulated processor builds a module in a minute and boots in another.
SECONDS, INSTALLING = 900, 600


def update(machine: Machine) -> str:
    """The command by which the other kernel comes, as a user's update brings it: no headers."""
    return f"apt-get -qq install -y linux-image-{machine.kernels.update}"


def findings(inventory: str) -> dict[str, dict[str, Any]]:
    """The report's findings of the only machine, by rule."""
    (host,) = drift(inventory).json["hosts"].values()
    return {each["rule"]: each for each in host["findings"]}


def deploy(inventory: str, *options: str) -> Run:
    """A converge, for real."""
    return run("pyinfra", "-y", inventory, DEPLOY, *options, seconds=SECONDS)
