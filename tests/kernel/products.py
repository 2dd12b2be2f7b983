"""Calls of the product by the tests on real kernels, and their results."""

from __future__ import annotations

from typing import Any

from tests.e2e.running import DEPLOY, Run, drift, run

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
