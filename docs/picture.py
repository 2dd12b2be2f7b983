"""Draws docs/drift.svg, the picture in the README, from docs/drift.json, a report of the lab.

`make picture` records a new report; a test fails if picture and report do not match.
"""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from gpu_node.drift.report import json, table
from gpu_node.drift.report.model import Report

HERE = Path(__file__).parent
RECORDED = HERE / "drift.json"
PICTURE = HERE / "drift.svg"
WIDTH = 104

# rich's frame without the fonts that it would load from the internet.
_FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def draw() -> str:
    """Return the picture of the recorded report."""
    report = Report.model_validate_json(RECORDED.read_text(encoding="utf-8"))
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(table.render(report, WIDTH), end="")
    title = f"gpu-node drift {report.inventory}"
    return console.export_svg(title=title, code_format=_FRAME, unique_id="drift")


if __name__ == "__main__":
    json.SCHEMA_FILE.write_text(json.schema_text(), encoding="utf-8")
    PICTURE.write_text(draw(), encoding="utf-8")
