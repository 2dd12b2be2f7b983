"""The whole benchmark: all contenders with all numbers of nodes, and the lab where it is up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from statistics import median

from bench import answers_of_many, copies, lab, logins
from bench.contenders import ours
from bench.contenders.all import CONTENDERS
from bench.contenders.setup import Setup
from bench.measure import machine
from bench.measure.rounds import Series, interleaved
from bench.measure.run import Taken
from bench.nodes.cluster import Login
from bench.nodes.serve import answering, prepared, shells
from bench.page.results import Results, Size

SIZES = (2, 10, 50, 200, 500)
Shown = Callable[[str], object]


def measure(sizes: Sequence[int], rounds: int, shown: Shown) -> Results:
    """Measure everything, each at most in so many rounds; `shown` takes a line for each run.

    Raises Failed, NotReal, NoAnswer, Busy, NoServer, NoSshd.
    """
    found: list[Size] = []
    loads: list[float] = []
    most = max(contender.most for contender in CONTENDERS.values() if contender.shells)
    with answering(max(sizes)) as login, shells(min(most, max(sizes))) as real:
        for size in sizes:
            setup = prepared(size, login)
            ours.check(setup)
            series = _series(setup, real, rounds, shown)
            found.append(Size.of(size, series))
            loads += [run.load for runs in series.values() for run in runs]
    pair = None
    if lab.is_converged():
        shown("the lab")
        pair = lab.compare(rounds)
    shown("copies of a tree")
    trees = copies.compare()
    shown(f"the logins between {logins.NODES} nodes")
    mesh = logins.compare(rounds=min(rounds, logins.ROUNDS))
    shown(f"the answers of {answers_of_many.MANY:,} nodes")
    stored = answers_of_many.compare(min(rounds, answers_of_many.ROUNDS))
    today = datetime.now(timezone.utc).date().isoformat()
    load = round(median(loads), 1)
    ran_on = machine.words(), machine.versions()
    return Results(today, *ran_on, found, load, pair, trees, mesh, stored)


def _series(setup: Setup, real: Login, most: int, shown: Shown) -> Series:
    """Measure the contenders that are measured with so many nodes."""
    size = len(setup.hosts)
    chosen = {name: each for name, each in CONTENDERS.items() if size <= each.most}
    commands = {
        name: each.start(replace(setup, login=real) if each.shells else setup)
        for name, each in chosen.items()
    }

    def line(name: str, taken: Taken) -> None:
        shown(
            f"{size:4} nodes  {chosen[name].title:26} {taken.wall:7.2f} s, "
            f"{taken.cpu:6.2f} s CPU, {taken.megabytes:4.0f} MB"
        )

    rounds = {name: min(most, each.rounds(size)) for name, each in chosen.items()}
    return interleaved(commands, rounds, setup.folder / "run", line)
