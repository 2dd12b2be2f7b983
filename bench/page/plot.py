"""Draws docs/benchmarks.svg: seconds by nodes, a line for each contender, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path

from jinja2 import Environment

from bench.contenders.all import ANSIBLE, CONTENDERS, DRIFT, MITOGEN, OPENSSH, PYINFRA
from bench.page.results import Results

_TEMPLATE = Path(__file__).with_name("plot.svg.j2")
# Colours that remain apart for most eyes, in the order of the legend.
_COLOURS = {
    ANSIBLE: "#b2182b",
    MITOGEN: "#e08214",
    DRIFT: "#1b7837",
    PYINFRA: "#2166ac",
    OPENSSH: "#636363",
}
LEFT, RIGHT, TOP, BOTTOM = 64, 520, 48, 340
# Names at the ends of lines are at least so far from each other.
_APART = 17


@dataclass(frozen=True)
class Point:
    """A point of a line, in the picture's units."""

    x: float
    y: float


@dataclass(frozen=True)
class Line:
    """A contender's line; its title is beside the last point, at the height `at`."""

    title: str
    colour: str
    width: float
    points: Sequence[Point]
    at: float

    @property
    def path(self) -> str:
        """The points as SVG has them."""
        return " ".join(f"{point.x:.1f},{point.y:.1f}" for point in self.points)


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis: `low` and `high` are at `begin` and `end` of the picture."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Return where a value is."""
        share = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return self.begin + share * (self.end - self.begin)


def draw(results: Results) -> str:
    """Return the picture as SVG."""
    counts = [size.nodes for size in results.sizes]
    seconds = [figures.wall for size in results.sizes for figures in size.figures.values()]
    across = Scale(min(counts), max(max(counts), min(counts) + 1), LEFT, RIGHT)
    up = Scale(_below(min(seconds)), _above(max(seconds)), BOTTOM, TOP)
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        _TEMPLATE.read_text()
    )
    return template.render(
        lines=_beside(list(_lines(results, across, up))),
        columns=[(across.at(count), count) for count in counts],
        rows=[(up.at(each), f"{each:g}") for each in _ticks(up)],
        left=LEFT,
        right=RIGHT,
        top=TOP,
        bottom=BOTTOM,
    )


def _lines(results: Results, across: Scale, up: Scale) -> Iterator[Line]:
    for name, colour in _COLOURS.items():
        points = [
            Point(across.at(size.nodes), up.at(size.figures[name].wall))
            for size in results.sizes
            if name in size.figures
        ]
        if points:
            width = 3.5 if name == DRIFT else 2
            yield Line(CONTENDERS[name].title, colour, width, points, points[-1].y)


def _beside(lines: list[Line]) -> list[Line]:
    """Return lines whose titles do not overlap; those that end further left have their own room."""
    placed: list[Line] = []
    for each in sorted(lines, key=lambda line: line.at):
        near = [other.at for other in placed if other.points[-1].x == each.points[-1].x]
        at = max([each.at, *(other + _APART for other in near)])
        placed.append(Line(each.title, each.colour, each.width, each.points, at))
    return placed


def _ticks(scale: Scale) -> list[float]:
    found: list[float] = [base * 10.0**power for power in range(-2, 5) for base in (1, 2, 5)]
    return [each for each in found if scale.low <= each <= scale.high]


def _below(value: float) -> float:
    return max(each for each in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if each <= max(value, 0.01))


def _above(value: float) -> float:
    found: list[float] = [base * 10.0**power for power in range(5) for base in (1, 2, 5)]
    return next(each for each in found if each >= value)
