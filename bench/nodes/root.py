"""How a benchmark starts what needs root: directly, or by sudo, which must not ask."""

from __future__ import annotations

import os


def as_root() -> list[str]:
    """Return the words before a command that needs root."""
    return [] if os.geteuid() == 0 else ["sudo", "-n"]
