"""What a report shows is made once: a format for people writes each line of it."""

from __future__ import annotations

import io
from html import unescape

import pytest
from rich.console import Console

from gpu_node.drift.report.changes import Changes, Identity
from gpu_node.drift.report.formats import Page, parts
from gpu_node.drift.report.view import View
from gpu_node.inventories.plurals import few
from tests.drift import states
from tests.drift.reports import FRESH, GONE, UNKNOWN, report
from tests.drift.test_outline import TRAINS

OFF = {"checks": {"limits.nofile": False}}
SHOWN = {
    "drift": {"a": states.seen(FRESH, **OFF), "b": states.seen(TRAINS), "gone": GONE},
    "unknown": {"a": UNKNOWN, "b": states.seen()},
}


def shown(name: str) -> View:
    made = report(SHOWN[name])
    new = [
        Identity(node="a", rule=each.rule, subject=each.subject)
        for each in made.hosts["a"].findings
    ]
    changes = Changes(since="last", earlier="2025-08-25T08:00:00+00:00", new=new)
    return View(made.model_copy(update={"changes": changes}))


@pytest.mark.parametrize("form", ["table", "full", "markdown", "html"])
@pytest.mark.parametrize("name", SHOWN)
def test_a_format_writes_what_there_is(name: str, form: str) -> None:
    """The lines, the problems and the errors; the page with all findings has other counts."""
    view = shown(name)
    console = Console(file=io.StringIO(), width=4000)
    written = "".join(parts(form.replace("full", "table"), view, Page(console, form == "full")))
    text = unescape(written.replace("<bdi>", "").replace("</bdi>", ""))
    lines = [*view.off[:2], *view.changes, *view.answer]
    lines.append(view.totals if form == "full" else view.head)
    words = [*(each.words for each in lines), view.why, view.repair]
    words += [each.problem.id for each in view.rows] + [each.error for each in view.unread]
    assert [each for each in words if each not in text] == []


def test_of_many_the_first_are_named() -> None:
    """The number of the others is in their place, in the words of the list."""
    assert few("abc", 3) == ["a", "b", "c"]
    assert few("abcd", 2) == ["a", "b", "2 more"]
    assert few("abcd", 3, "{} more, see /x/{}") == ["a", "b", "c", "1 more, see /x/{}"]
