"""The report as Markdown, for a chat or an issue: the problems, then the facts, collapsed."""

import io
import re
from collections.abc import Iterator

from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.formats import Page, plain, printed
from gpu_node.drift.report.matrix import matrix
from gpu_node.drift.report.problems import joined
from gpu_node.drift.report.view import Row, View
from gpu_node.inventories.escape import visible, visible_lines

_WIDTH = 120
_TICKS = re.compile("`+")


def parts(view: View, page: Page) -> Iterator[str]:
    """Yield the report; each text of a node is code, in which no markup, link or mention counts."""
    report, hosts = view.report, view.hosts
    yield f"## gpu-node: {_code(report.inventory)}\n\n"
    yield f"{_block(view.given)}\n" if view.given else f"{_code(view.head.words)}\n\n"
    for answer in view.answer:
        yield f"{_code(answer.words)}\n\n"
    yield f"{report.generated}\n\n"
    for each in view.rows:
        yield from _problem(each)
    for status, error, names in view.unread:
        yield f"- **{status}** {_code(ranges(names, hosts))}\n\n{_block(error, '  ')}\n"
    noted = [f"{'  ' * each.depth}{each.words}" for each in view.off]
    noted += ["", *(each.words for each in view.changes)] if view.changes else []
    noted += [view.why] if view.why else []
    if noted:
        yield f"\n{_block(chr(10).join(noted))}"
    if view.repair:
        yield f"\nRepair: {_code(view.repair)}\n"
    facts = printed(matrix(view.facts, _WIDTH, alike=True), plain(io.StringIO(), width=_WIDTH))
    yield f"\n<details><summary>Facts</summary>\n\n{_block(facts)}\n</details>\n"


def _problem(row: Row) -> Iterator[str]:
    """Yield a problem as an item of a list, with what follows from it and who repairs it below."""
    problem = row.problem
    yield f"- **{row.mark}{problem.severity}** {_code(problem.id)} on {_code(row.nodes)}\n"
    yield f"  - found: {_code(row.text)}\n"
    if row.leads_to:
        yield f"  - leads to: {_code(', '.join(row.leads_to))}\n"
    fixes = dict.fromkeys(each.finding.fix for each in problem.own or problem.explained)
    manually = "" if row.repair == "deploy" else f": {_code(joined(fixes))}"
    yield f"  - repair: {row.repair}{manually}\n"


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
