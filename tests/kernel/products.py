"""What the tests on real kernels ask of the product, and how its answers are read."""

from __future__ import annotations

from typing import Any

from tests.e2e.running import DEPLOY, Run, drift, run

# An emulated processor builds a module in a minute.
SECONDS = 900


def findings(inventory: str) -> dict[str, dict[str, Any]]:
    """The report's findings of the only machine, by rule."""
    (host,) = drift(inventory).json["hosts"].values()
    return {each["rule"]: each for each in host["findings"]}


def deploy(inventory: str, *options: str) -> Run:
    """A converge, for real."""
    return run("pyinfra", "-y", inventory, DEPLOY, *options, seconds=SECONDS)
