"""Two names, their addresses and how to log in, nothing else: what is reported, and kept as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_node.drift.engine.rules import RULES
from gpu_node.lab import nodes, roster
from tests.e2e.conftest import converge_unless_kept
from tests.e2e.running import INVENTORY, MANAGED, Run, changed, converge, drift, manifest

pytestmark = [pytest.mark.lab, pytest.mark.lab_slow]


def write(into: Path) -> str:
    """Write an inventory of the two servers that names nothing about them; return its path."""
    ssh = {"user": "root", "key": str(roster.CLIENT_KEY), "known_hosts": str(roster.KNOWN_HOSTS)}
    hosts = {name: {"address": roster.NODES[name].address} for name in MANAGED}
    (into / "few.yml").write_text(
        yaml.safe_dump({"cluster": "few", "defaults": {"ssh": ssh}, "hosts": hosts})
    )
    lab = roster.REPOSITORY / "inventories" / "lab.py"
    (into / "few.py").write_text(lab.read_text())
    return str(into / "few.py")


def rules(report: Run) -> dict[str, set[str]]:
    """Return the rules of a report's findings, each with its nodes."""
    found: dict[str, set[str]] = {}
    for node, host in report.json["hosts"].items():
        for each in host["findings"]:
            found.setdefault(each["rule"], set()).add(node)
    return found
