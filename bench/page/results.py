"""The results of a benchmark as plain values, as docs/benchmarks.json has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from bench.contenders.all import DRIFT, OPENSSH, PYINFRA
from bench.measure.rounds import Series, cpu, megabytes, ratio, wall
from bench.measure.run import Taken


@dataclass(frozen=True)
class Figures:
    """The medians of a contender's runs; `walls` are the seconds of each run."""

    wall: float
    cpu: float
    megabytes: float
    walls: Sequence[float]

    @classmethod
    def of(cls, runs: Sequence[Taken]) -> Figures:
        walls = tuple(round(run.wall, 3) for run in runs)
        return cls(round(wall(runs), 3), round(cpu(runs), 3), round(megabytes(runs), 1), walls)


@dataclass(frozen=True)
class Size:
    """What so many nodes took: figures by contender, and the ratios of drift to the others."""

    nodes: int
    figures: Mapping[str, Figures]
    ratios: Mapping[str, float]

    @classmethod
    def of(cls, nodes: int, series: Series) -> Size:
        ours = series[DRIFT]
        ratios = {
            name: round(ratio(ours, runs), 3) for name, runs in series.items() if name != DRIFT
        }
        return cls(nodes, {name: Figures.of(runs) for name, runs in series.items()}, ratios)


@dataclass(frozen=True)
class Pair:
    """A deploy with nothing to do beside a report, on the lab; `ratio` is deploy to drift."""

    drift: Figures
    deploy: Figures
    ratio: float


@dataclass(frozen=True)
class Copies:
    """Seconds in which a tree gets to one node, to `nodes`, and to these from the source alone.

    Their lines are equally slow.
    """

    nodes: int
    one: float
    many: float
    from_source: float


@dataclass(frozen=True)
class Logins:
    """Seconds of `count` logins between `nodes`: in the probe's section, and by OpenSSH alone.

    `ratio` is the median of the ratios in each round.
    """

    nodes: int
    count: int
    mesh: float
    plain: float
    ratio: float


@dataclass(frozen=True)
class Answers:
    """A report of the stored answers of `nodes`; with `mesh` each one knows all others."""

    nodes: int
    plain: Figures
    mesh: Figures


@dataclass(frozen=True)
class Results:
    """A whole benchmark; `lab` is None where no converged lab was there.

    `load` is the median of the machine's load (over a minute) at the ends of all runs.
    """

    date: str
    machine: str
    versions: Mapping[str, str]
    sizes: Sequence[Size]
    load: float
    lab: Pair | None = None
    copies: Copies | None = None
    logins: Logins | None = None
    answers: Answers | None = None

    @classmethod
    def read(cls, text: str) -> Results:
        """Return the results in the text of benchmarks.json."""
        return TypeAdapter(cls).validate_json(text)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**asdict(self), "cpu_per_host_ms": self.cpu_per_host()}

    def cpu_per_host(self) -> dict[int, dict[str, float]]:
        """Return, by nodes, the ms of CPU that a further node costs, from the fewest nodes on.

        `above_pyinfra` is what gpu-node adds to pyinfra's.
        """
        first, *others = self.sizes
        found = {}
        for other in others:
            more = other.nodes - first.nodes
            costs = {
                name: round((other.figures[name].cpu - first.figures[name].cpu) / more * 1000, 1)
                for name in (DRIFT, PYINFRA, OPENSSH)
            }
            found[other.nodes] = {
                **costs,
                "above_pyinfra": round(costs[DRIFT] - costs[PYINFRA], 1),
            }
        return found
