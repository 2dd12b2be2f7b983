"""docs/benchmarks.md and the plot are those of docs/benchmarks.json."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from bench.contenders.all import ANSIBLE, DRIFT, MITOGEN, OPENSSH, PYINFRA
from bench.measure.run import Taken
from bench.page import plot, text
from bench.page.results import Answers, Figures, Logins, Results, Size

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
_TITLE = re.compile(r'<text x="([\d.]+)" y="([\d.]+)" fill="#\w+" font-weight="600">')


def runs(*walls: float, cpu: float = 1) -> list[Taken]:
    """Runs of one contender."""
    return [Taken(wall=each, cpu=cpu, megabytes=50, load=1) for each in walls]


FEW = {DRIFT: runs(2, 9, 3), PYINFRA: runs(1, 4.5, 2), OPENSSH: runs(1, 1, 1), ANSIBLE: runs(30)}
MANY = {DRIFT: runs(9, cpu=3), PYINFRA: runs(6, cpu=2), OPENSSH: runs(5, cpu=1.5)}
SIZES = [Size.of(2, FEW), Size.of(202, MANY)]
RESULTS = Results("2026-01-31", "2 processors", {"pyinfra": "3"}, SIZES, load=1.5)


def test_ratios_are_those_of_the_same_round() -> None:
    """A contender that runs once has the ratio to the first run."""
    size = RESULTS.sizes[0]
    assert size.figures[DRIFT].wall == 3
    assert size.ratios == {PYINFRA: 2, OPENSSH: 3, ANSIBLE: 0.067}


def test_a_further_node_costs_what_is_above_the_fewest() -> None:
    """In ms of CPU."""
    assert RESULTS.cpu_per_host() == {
        202: {DRIFT: 10, PYINFRA: 5, OPENSSH: 2.5, "above_pyinfra": 5}
    }


def test_the_page_has_a_row_for_each_size() -> None:
    """What was not measured is a dash."""
    page = text.page(RESULTS)
    assert "| 2 | 3.00 | 1.00 | 2.00 | - | 30.00 |" in page
    assert "| 202 | 9.00 | 5.00 | 6.00 | - | - |" in page
    assert "Not measured: the lab" in page


def test_the_page_has_what_else_was_measured() -> None:
    """Seconds, ratios and memory; older figures lack some of it."""
    page = text.page(
        replace(
            RESULTS,
            logins=Logins(nodes=50, count=344, mesh=22.71, plain=23.77, ratio=1.02),
            answers=Answers(1000, plain=Figures.of(runs(5.4)), mesh=Figures.of(runs(16.2, cpu=15))),
        )
    )
    assert "50 nodes on loopback try 344" in page
    assert "the ratio is 1.02" in page
    assert "each of 1,000 nodes has its answer" in page
    assert "| without the mesh | 5.40 | 1.00 | 50 MB |" in page
    assert "| with the mesh | 16.20 | 15.00 | 50 MB |" in page
    assert text.page(RESULTS).count("Not measured.") == 3


def test_the_plot_has_a_line_for_each_contender() -> None:
    """Titles at one column are apart."""
    more = replace(RESULTS, sizes=[Size.of(2, FEW), Size.of(10, {**MANY, MITOGEN: runs(6.1)})])
    drawn = plot.draw(more)
    assert (drawn.count("<polyline"), drawn.count("<circle")) == (5, 8)
    titles = [(float(x), float(y)) for x, y in _TITLE.findall(drawn)]
    heights = sorted(y for x, y in titles if x > plot.RIGHT)
    assert (len(titles), len(heights)) == (5, 4)
    assert all(later - former > 16.8 for former, later in pairwise(heights))


def test_the_page_is_that_of_the_figures() -> None:
    """`make bench` writes all three; they name no path and no machine."""
    figures = (DOCS / "benchmarks.json").read_text()
    results = Results.read(figures)
    page = (DOCS / "benchmarks.md").read_text()
    assert page == text.page(results)
    assert (DOCS / "benchmarks.svg").read_text() == plot.draw(results)
    assert not re.search(r"/(home|root|tmp|work|usr)/", page + figures)
