"""A deploy with nothing to do beside a report, on the two converged nodes of the lab."""

from __future__ import annotations

import subprocess

from bench.measure.rounds import interleaved, ratio
from bench.measure.run import Command
from bench.page.results import Figures, Pair
from bench.places import BIN, HERE, REPOSITORY

_INVENTORY = "inventories/lab.py"
_PROGRAM = str(BIN / "gpu-node")


def is_converged() -> bool:
    """Whether the lab of this folder is up, and its report finds nothing."""
    if not (REPOSITORY / ".lab/known_hosts").exists():
        return False
    words = [_PROGRAM, "drift", _INVENTORY]
    return subprocess.run(words, cwd=REPOSITORY, capture_output=True, check=False).returncode == 0


def compare(rounds: int) -> Pair:
    """Measure `drift` and `deploy -y` in turn. Raises Failed."""
    commands = {
        "drift": Command([_PROGRAM, "drift", _INVENTORY], REPOSITORY),
        "deploy": Command([_PROGRAM, "deploy", _INVENTORY, "-y"], REPOSITORY),
    }
    series = interleaved(commands, dict.fromkeys(commands, rounds), HERE / "lab")
    return Pair(
        Figures.of(series["drift"]),
        Figures.of(series["deploy"]),
        round(ratio(series["deploy"], series["drift"]), 3),
    )
