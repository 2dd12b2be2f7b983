"""Writes drift/report/report.schema.json: the report's JSON, by the models that write it.

`python docs/schema.py` writes it again; a test fails when it does not match the models.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_node.drift.report.model import Report

FILE = Path(__file__).parent.parent / "drift" / "report" / "report.schema.json"


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the report as the models define it."""
    described = Report.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}


def text() -> str:
    """Return what the file must hold."""
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
