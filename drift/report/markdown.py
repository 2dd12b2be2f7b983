"""The report as Markdown, for a chat or an issue: the problems, then the facts, collapsed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping

from gpu_node.drift.ranges import ranges
from gpu_node.drift.report import changes, off
from gpu_node.drift.report.formats import Page, plain, printed
from gpu_node.drift.report.full import why_one
from gpu_node.drift.report.matrix import matrix
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.outline import counts
from gpu_node.drift.report.problems import (
    Problem,
    errors,
    joined,
    leads_to,
    problems,
    repair_of,
    text,
)
from gpu_node.drift.report.start import start_line
from gpu_node.inventories.escape import visible, visible_lines
from gpu_node.inventories.next_command import deploy_command

_WIDTH = 120
_TICKS = re.compile("`+")


def parts(report: Report, page: Page) -> Iterator[str]:
    """Yield the report; each text of a node is code, in which no markup, link or mention counts."""
    hosts = report.hosts
    listed = problems(hosts)
    yield f"## gpu-node: {_code(report.inventory)}\n\n"
    head, answer = page.head or str(counts(report, listed)), str(start_line(report))
    yield f"{_block(head)}\n" if page.head else f"{_code(head)}\n\n{_code(answer)}\n\n"
    yield f"{report.generated}\n\n"
    for each in listed:
        yield from _problem(each, changes.mark(report.changes, each.all), hosts)
    for (status, error), names in errors(hosts).items():
        yield f"- **{status}** {_code(ranges(names, hosts))}\n\n{_block(error, '  ')}\n"
    noted = [f"{'  ' * depth}{words}" for depth, words in off.texts(hosts, full=True)]
    noted += [line.plain for line in changes.lines(report.changes, hosts)]
    noted += [why] if (why := why_one(report)) else []
    if noted:
        yield f"\n{_block(chr(10).join(noted))}"
    if any(repair_of(each, hosts) in ("deploy", "partly") for each in listed):
        yield f"\nRepair: {_code(deploy_command(report.inventory))}\n"
    facts = printed(matrix(hosts, _WIDTH, alike=True), plain(io.StringIO(), width=_WIDTH))
    yield f"\n<details><summary>Facts</summary>\n\n{_block(facts)}\n</details>\n"


def _problem(problem: Problem, mark: str, hosts: Mapping[str, HostReport]) -> Iterator[str]:
    """Yield a problem as an item of a list, with what follows from it and who repairs it below."""
    on = ranges(problem.nodes, hosts)
    yield f"- **{mark}{problem.severity}** {_code(problem.id)} on {_code(on)}\n"
    yield f"  - found: {_code(text(problem, list(hosts)))}\n"
    if rules := leads_to(problem):
        yield f"  - leads to: {_code(', '.join(rules))}\n"
    fixes = dict.fromkeys(each.finding.fix for each in problem.own or problem.explained)
    repair = repair_of(problem, hosts)
    manually = "" if repair == "deploy" else f": {_code(joined(fixes))}"
    yield f"  - repair: {repair}{manually}\n"


def _code(words: str) -> str:
    """Return words as code in a line, between more backticks than it has behind each other."""
    shown = visible(words) or " "
    fence = "`" * (_longest(shown) + 1)
    # One blank at each end is no part of the code.
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"


def _block(words: str, indent: str = "") -> str:
    """Return lines as a block of code, each behind an indent."""
    shown = visible_lines(words.rstrip("\n"))
    fence = "`" * max(3, _longest(shown) + 1)
    return "".join(f"{indent}{line}\n" for line in (f"{fence}text", *shown.split("\n"), fence))


def _longest(words: str) -> int:
    return max(map(len, _TICKS.findall(words)), default=0)
