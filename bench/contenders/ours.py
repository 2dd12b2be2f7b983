"""gpu-node's own report, of all areas, as a user sees it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bench.contenders.setup import Setup
from bench.measure.run import Command, surroundings
from bench.places import BIN

# Nothing differs, or something does.
JUDGED = (0, 2)


class NotReal(Exception):
    """A node of the benchmark was not judged; str() has the reason."""


def drift(setup: Setup) -> Command:
    """Return `gpu-node drift`."""
    return Command([str(BIN / "gpu-node"), "drift", "site.py"], setup.inventory.parent, JUDGED)


def check(setup: Setup) -> dict[str, int]:
    """Return how many findings each rule has in a report. Raises NotReal."""
    return judged(setup.inventory, len(setup.hosts))


def judged(inventory: Path, number: int, *options: str) -> dict[str, int]:
    """Return how many findings each rule has in a report of so many nodes. Raises NotReal.

    What is measured is a report only if each node was read and judged.
    """
    words = [str(BIN / "gpu-node"), "drift", inventory.name, *options, "--format", "json"]
    done = subprocess.run(
        words,
        cwd=inventory.parent,
        env=surroundings(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in JUDGED:
        raise NotReal(
            f"gpu-node drift ended with {done.returncode}: {_why(done.stdout) or done.stderr}"
        )
    hosts = json.loads(done.stdout)["hosts"]
    if len(hosts) != number:
        raise NotReal(f"the report has {len(hosts)} nodes of {number}")
    counts: dict[str, int] = {}
    for host in hosts.values():
        for each in host["findings"]:
            counts[each["rule"]] = counts.get(each["rule"], 0) + 1
    return counts


def _why(report: str) -> str:
    """Return what one node of a report could not be asked."""
    try:
        hosts = json.loads(report)["hosts"]
    except ValueError:
        return ""
    for name, each in hosts.items():
        unread = [one for one in each["findings"] if one["rule"].endswith(".unreadable")]
        if each["error"] or unread:
            return f"{name}: {each['error'] or unread[0]}"
    return ""
