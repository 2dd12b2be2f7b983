"""The report as JSON, schema version 1; `report.schema.json` beside this module describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_node.drift.report.formats import Page
from gpu_node.drift.report.model import Report
from gpu_node.inventories.escape import visible_json

SCHEMA_FILE = Path(__file__).with_name("report.schema.json")


def render(report: Report, encoding: str = "utf-8") -> str:
    """Return the report as indented JSON with a final newline, in characters of `encoding`."""
    data = report.model_dump(mode="json", by_alias=True)
    text = visible_json(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(json.loads(text), indent=2) + "\n"
    return text


def text(report: Report, page: Page) -> str:
    """Return the report for a page, in characters of its encoding."""
    return render(report, page.console.encoding)


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the report as the models define it."""
    described = Report.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}


def schema_text() -> str:
    """Return what `report.schema.json` must hold."""
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"
