"""Writes the page, the figures as JSON and the plot into a folder."""

from __future__ import annotations

import json
from pathlib import Path

from bench.page import plot, text
from bench.page.results import Results

NAME = "benchmarks"


def write(results: Results, folder: Path) -> None:
    """Write all three files."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = json.dumps(results.plain(), indent=2, ensure_ascii=False)
    (folder / f"{NAME}.json").write_text(f"{figures}\n")
    (folder / f"{NAME}.svg").write_text(plot.draw(results))
    (folder / f"{NAME}.md").write_text(text.page(results))
