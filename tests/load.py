"""Time limits on a machine that has other work, too."""

from __future__ import annotations

import os


def at_most(seconds: float) -> float:
    """Return how long something may take that takes `seconds` on a machine with nothing else."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
