"""Where a benchmark keeps its files: all of them below .bench, which git ignores."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
BIN = REPOSITORY / ".venv" / "bin"
HERE = REPOSITORY / ".bench"
# Where `make bench` installs the other tools.
OTHERS = HERE / "venv" / "bin"
