"""The report as one page for a browser: it needs no network, and no script but its own runs."""

import base64
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache, partial
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.drift.report.explained import UNREADABLE, lines_of
from gpu_node.drift.report.formats import Page
from gpu_node.drift.report.problems import entries
from gpu_node.drift.report.view import View
from gpu_node.inventories.escape import visible, visible_lines

_TEMPLATE = "html.html.j2"
_BLANKS = re.compile(r"(\s+)")


def parts(view: View, page: Page) -> tuple[str]:
    """Return the page in ASCII: other characters are references, which any encoding takes."""

    def on(names: Iterable[str]) -> str:
        return ranges(names, view.hosts)

    rules = {each.finding.rule: "" for row in view.rows for each in row.problem.all}
    whole = _template().render(
        view=view,
        stopped={} if view.given else view.start.stopped,
        rules={rule: [*lines_of(rule)] for rule in rules if rule in (*RULES, *UNREADABLE)},
        facts=[*_facts(view)],
        on=on,
        places=partial(_places, view.hosts),
        entries=partial(entries, listed=on),
    )
    return (f"{whole.encode('ascii', 'xmlcharrefreplace').decode('ascii')}\n",)


@cache
def _template() -> Template:
    folder = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.filters |= {"csp": _hashed, "parted": _BLANKS.split}
    made.filters |= {"visible": visible, "visible_lines": visible_lines}
    return made.get_template(_TEMPLATE)


def _hashed(text: str) -> str:
    """Return a style or script as a Content-Security-Policy names the one that it allows."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return f"sha256-{digest}"


def _facts(view: View) -> Iterator[tuple[str, list[tuple[tuple[str, bool], list[str]]]]]:
    """Yield each fact with its values, and whether one is wrong; each value once, with the nodes
    that have it, most nodes first.
    """
    hosts, (labels, columns) = view.hosts, view.facts
    by_node = dict(zip(hosts, columns, strict=True))
    read = {name: each for name, each in by_node.items() if hosts[name].error is None}
    for at, label in enumerate(labels):
        cells = {name: each.cells[at] for name, each in (by_node if at == 0 else read).items()}
        values = gathered(
            ((cell.plain, "red" in str(cell.style)), name) for name, cell in cells.items()
        )
        yield label, sorted(values.items(), key=lambda each: -len(each[1]))


def _places(hosts: Iterable[str], names: Collection[str]) -> str:
    """Return the places of nodes in the report, numbers that follow each other as one range."""
    kept = set(names)
    spans: list[str] = []
    for is_kept, several in groupby(enumerate(hosts), lambda each: each[1] in kept):
        if is_kept:
            places = [place for place, _ in several]
            spans.append(f"{places[0]}-{places[-1]}")
    return ",".join(spans)
