"""Draws the README's pictures: docs/drift.svg, a report of the lab, and docs/demo.svg, the demo.

    python docs/picture.py [RUN.json AFTER.json]

`make picture` records docs/drift.json, the report of the lab as found, and gives what pyinfra's run
and the report after it printed as JSON; docs/demo.json has what the picture needs of them. A test
fails if a picture and what was recorded do not match.
"""

from __future__ import annotations

import io
import json as stdlib_json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpu_node.drift.report import json, table
from gpu_node.drift.report.formats import Page, plain
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.view import View

HERE = Path(__file__).parent
RECORDED = HERE / "drift.json"
PICTURE = HERE / "drift.svg"
ACTS = HERE / "demo.json"
DEMO = HERE / "demo.svg"
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
    report = _recorded()
    title = f"gpu-node drift {report.inventory}"
    return _drawn(table.render(View(report), WIDTH), title, "drift")


def draw_demo() -> str:
    """Return the picture of the demo: as found, the run, and the report after it."""
    acts = stdlib_json.loads(ACTS.read_text(encoding="utf-8"))
    before, after = _recorded(), json.WrittenReport.model_validate(acts["after"])
    run = f"pyinfra {before.inventory} deploy/gpu_node.py"
    shown = Group(
        _command(f"gpu-node drift {before.inventory}"),
        table.render(View(before), WIDTH, next_step=False),
        Text(),
        _command(run),
        _operations(acts["operations"]),
        Text(),
        _command(f"gpu-node drift {before.inventory}"),
        table.render(View(after), WIDTH),
    )
    return _drawn(shown, "make demo", "demo")


def _recorded() -> Report:
    return json.WrittenReport.model_validate_json(RECORDED.read_text(encoding="utf-8"))


def _command(line: str) -> Text:
    return Text.assemble(("$ ", "dim"), (line, "bold"))


def _operations(operations: Sequence[dict[str, Any]]) -> RenderableType:
    shown = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for each in operations:
        shown.add_row(Text("ok", style="green"), ", ".join(each["nodes"]), Text(each["name"]))
    return shown


def _drawn(shown: RenderableType, title: str, name: str) -> str:
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(shown, end="")
    return console.export_svg(title=title, code_format=_FRAME, unique_id=name)


def record(run: Path, after: Path) -> None:
    """Write what the picture of the demo needs: operations with their nodes, and findings."""
    results = stdlib_json.loads(run.read_text(encoding="utf-8").splitlines()[-1])["results"]
    if any(each["error"] for each in results["operations"]) or results["failed_hosts"]:
        sys.exit("the run on the lab failed: nothing was recorded")
    nodes: dict[str, list[str]] = {}
    for each in results["operations"]:
        nodes.setdefault(each["name"].strip(), []).extend(each["success"])
    operations = [{"name": name, "nodes": sorted(on)} for name, on in nodes.items() if on]
    report = json.WrittenReport.model_validate_json(after.read_text(encoding="utf-8"))
    hosts = {name: host.model_copy(update={"facts": {}}) for name, host in report.hosts.items()}
    short = report.model_copy(update={"hosts": hosts, "differences": []})
    written = "".join(json.parts(View(short), Page(plain())))
    made = {"operations": operations, "after": stdlib_json.loads(written)}
    ACTS.write_text(stdlib_json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        record(Path(sys.argv[1]), Path(sys.argv[2]))
    PICTURE.write_text(draw(), encoding="utf-8")
    DEMO.write_text(draw_demo(), encoding="utf-8")
