"""The report as JSON, schema version 1; `report.schema.json` beside this module describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpu_node.drift.report.formats import Page
from gpu_node.drift.report.model import Report
from gpu_node.inventories.escape import visible_json

_NO_HOSTS = '"hosts": {}'


def render(report: Report, encoding: str = "utf-8") -> str:
    """Return the report as indented JSON with a final newline, in characters of `encoding`."""
    return "".join(_parts(report, encoding))


def parts(report: Report, page: Page) -> Iterator[str]:
    """Yield the report for a page, in characters of its encoding: the nodes one after the other.

    The facts of all nodes of a large cluster would fill the memory.
    """
    return _parts(report, page.console.encoding)


def _parts(report: Report, encoding: str) -> Iterator[str]:
    without = {"changes"} if report.changes is None else None
    rest = report.model_copy(update={"hosts": {}}).model_dump(
        mode="json", by_alias=True, exclude=without
    )
    before, _, after = _written(rest, encoding).partition(_NO_HOSTS)
    yield f'{before}"hosts": {{'
    between = ""
    for name, host in report.hosts.items():
        # A brace and a newline at each end are those of `hosts` itself.
        one = _written({name: host.model_dump(mode="json", by_alias=True)}, encoding)[1:-2]
        yield between + one.replace("\n", "\n  ")
        between = ","
    yield ("\n  }" if report.hosts else "}") + f"{after}\n"


def _written(data: dict[str, Any], encoding: str) -> str:
    text = visible_json(json.dumps(data, indent=2, ensure_ascii=False))
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(json.loads(text), indent=2)
    return text
