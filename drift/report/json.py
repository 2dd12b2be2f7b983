"""The report as JSON, schema version 1; `report.schema.json` beside this module describes it."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.report.formats import Page
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.problems import repair_of
from gpu_node.drift.report.start import Start
from gpu_node.drift.report.view import View
from gpu_node.inventories.escape import visible_json

_NO_HOSTS = '"hosts": {}'


class WrittenProblem(BaseModel):
    """What one repair mends: its rule or area, who repairs it, and how many findings it has."""

    model_config = ConfigDict(extra="forbid")

    id: str
    severity: Severity
    nodes: tuple[str, ...]
    repair: str
    findings: int


class WrittenReport(Report):
    """The report as it is written: with the problems, and where a job can start.

    `can_start` is null in the report about a job: that has what stops this job alone.
    """

    problems: list[WrittenProblem]
    can_start: Start | None


def parts(view: View, page: Page) -> Iterator[str]:
    """Yield the report for a page, in characters of its encoding: the nodes one after the other.

    The facts of all nodes of a large cluster would fill the memory.
    """
    report, encoding = view.report, page.console.encoding
    without = {"changes"} if report.changes is None else None
    listed = [
        WrittenProblem(
            id=each.id,
            severity=each.severity,
            nodes=each.nodes,
            repair=repair_of(each, report.hosts),
            findings=len(each.all),
        )
        for each in view.problems
    ]
    made: dict[str, Any] = {"problems": listed, "can_start": None if view.given else view.start}
    whole = WrittenReport.model_construct(None, **(dict(report) | {"hosts": {}} | made))
    rest = whole.model_dump(mode="json", by_alias=True, exclude=without)
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
