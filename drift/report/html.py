"""The report as one page for a browser: it needs no network, and no script but its own runs."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.ranges import ranges
from gpu_node.drift.report import changes, off
from gpu_node.drift.report.explained import UNREADABLE, lines_of
from gpu_node.drift.report.formats import Page
from gpu_node.drift.report.full import grouped, lines, why_one
from gpu_node.drift.report.matrix import labels_and_columns
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.outline import counts, of_jobs, outline
from gpu_node.drift.report.problems import OnNode, Problem, errors, problems, repair_of, text
from gpu_node.drift.report.start import start, start_line
from gpu_node.drift.report.table import LEGEND
from gpu_node.inventories.escape import visible, visible_lines
from gpu_node.inventories.next_command import deploy_command

_TEMPLATE = "html.html.j2"
_BLANKS = re.compile(r"(\s+)")
_STOPS = ("stops a job", "no job that uses all nodes can start")


def parts(report: Report, page: Page) -> tuple[str]:
    """Return the page in ASCII: other characters are references, which any encoding takes."""
    hosts = report.hosts
    listed = problems(hosts)
    head = page.head or str(counts(report, listed))
    stopped = {} if page.head else start(report).stopped
    rules = {each.finding.rule: "" for problem in listed for each in problem.all}
    is_repaired = any(repair_of(each, hosts) in ("deploy", "partly") for each in listed)
    whole = _template().render(
        inventory=visible(report.inventory),
        generated=visible(report.generated),
        version=report.tool.version,
        names=[visible(name) for name in hosts],
        head=head,
        start="" if page.head else str(start_line(report)),
        why=why_one(report),
        legend=_legend(listed, hosts, stopped),
        rules={rule: [*lines_of(rule)] for rule in rules if rule in (*RULES, *UNREADABLE)},
        kinds=[str(line) for line in (*of_jobs(report), *outline(hosts)) if line.plain],
        repair=visible(deploy_command(report.inventory)) if is_repaired else "",
        problems=[
            {
                **_problem(each, hosts),
                "mark": changes.mark(report.changes, each.all),
                "stops": each.id in stopped,
            }
            for each in listed
        ],
        off=[*off.texts(hosts, full=True)],
        changes=[line.plain for line in changes.lines(report.changes, hosts) if line.plain],
        unread=[
            {
                "nodes": visible(ranges(names, hosts)),
                "places": _places(names, hosts),
                "status": status,
                "error": visible_lines(error),
            }
            for (status, error), names in errors(hosts).items()
        ],
        facts=list(_facts(hosts)),
    )
    return (f"{whole.encode('ascii', 'xmlcharrefreplace').decode('ascii')}\n",)


@cache
def _template() -> Template:
    folder = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.filters |= {"csp": _hashed, "parted": _BLANKS.split}
    return made.get_template(_TEMPLATE)


def _hashed(text: str) -> str:
    """Return a style or script as a Content-Security-Policy names the one that it allows."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return f"sha256-{digest}"


def _legend(
    listed: Iterable[Problem], hosts: Mapping[str, HostReport], stopped: Container[str]
) -> list[tuple[str, str]]:
    """Return the words beside a problem that occur, with their meaning."""
    words = {repair_of(each, hosts) for each in listed}
    found = [(word, LEGEND[word].format("its fix")) for word in LEGEND if word in words]
    return found + [_STOPS] * any(each.id in stopped for each in listed)


def _problem(problem: Problem, hosts: Mapping[str, HostReport]) -> dict[str, Any]:
    return {
        "id": problem.id,
        "severity": problem.severity,
        "nodes": visible(ranges(problem.nodes, hosts)),
        "places": _places(problem.nodes, hosts),
        "text": visible(text(problem, list(hosts))),
        "repair": repair_of(problem, hosts),
        "own": list(_findings(problem.own, hosts)),
        "explained": list(_findings(problem.explained, hosts)),
    }


def _findings(found: Iterable[OnNode], hosts: Mapping[str, HostReport]) -> Iterator[dict[str, Any]]:
    """Yield each distinct finding once, with the nodes that have it."""
    by_node = {
        node: [each.finding for each in several]
        for node, several in groupby(found, lambda each: each.node)
    }
    for finding, values in grouped(by_node).items():
        nodes = [name for names in values.values() for name in names]
        shown = lines(finding, values, lambda names: ranges(names, hosts))
        yield {
            "rule": finding.rule,
            "severity": finding.severity,
            "nodes": visible(ranges(nodes, hosts)),
            "lines": [(label, visible(words)) for label, words in shown if words],
        }


def _facts(hosts: Mapping[str, HostReport]) -> Iterator[dict[str, Any]]:
    """Yield each fact with its values, each once with the nodes that have it, most nodes first."""
    labels, columns = labels_and_columns(hosts)
    by_node = dict(zip(hosts, columns, strict=True))
    read = {name: each for name, each in by_node.items() if hosts[name].error is None}
    for at, label in enumerate(labels):
        values: dict[tuple[str, bool], list[str]] = {}
        for name, column in (by_node if at == 0 else read).items():
            cell = column.cells[at]
            values.setdefault((cell.plain, "red" in str(cell.style)), []).append(name)
        yield {
            "label": label,
            "values": [
                {
                    "text": value,
                    "is_wrong": is_wrong,
                    "nodes": visible(ranges(on, hosts)),
                    "places": _places(on, hosts),
                }
                for (value, is_wrong), on in sorted(values.items(), key=lambda each: -len(each[1]))
            ],
        }


def _places(names: Collection[str], hosts: Iterable[str]) -> str:
    """Return the places of nodes in the report, numbers that follow each other as one range."""
    kept = set(names)
    spans: list[str] = []
    for is_kept, several in groupby(enumerate(hosts), lambda each: each[1] in kept):
        if is_kept:
            places = [place for place, _ in several]
            spans.append(f"{places[0]}-{places[-1]}")
    return ",".join(spans)
