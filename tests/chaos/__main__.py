"""Kills runs and nodes at many moments; prints how many of them the next run repairs, as a table.

    python -m tests.chaos

CHAOS_SEED=NUMBER chooses the moments; each call prints its number.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpu_node.lab import life
from gpu_node.lab.errors import LabError
from tests.chaos import power
from tests.chaos.rounds import Disturb, LabRounds, Moment, Outcome
from tests.chaos.virtual import machine_rounds
from tests.e2e.on_lab import MANAGED

SEED = "CHAOS_SEED"
# How many moments a kind has that does not have each operation.
IN_OPERATIONS, NODES, POWER = 10, 20, 5
# No round begins after so many seconds; on a machine that does nothing else all end in half of it.
LAST_SECONDS = 3600
COLUMNS = (
    *("what is killed", "moments", "converged by the next run"),
    *("half-written files seen", "temporary files left", "seconds"),
)


@dataclass
class Kill:
    """One round: what is disturbed when; the moments are as many as what is killed."""

    when: str
    take: Callable[[], Outcome]
    moments: int = 1


@dataclass
class Kind:
    """A kind of kill, and what its rounds have shown."""

    name: str
    kills: list[Kill]
    outcomes: list[Outcome] = field(default_factory=list)
    around: AbstractContextManager[None] = field(default_factory=nullcontext)

    def row(self) -> tuple[object, ...]:
        """Return its line of the table."""
        ended = list(zip(self.kills, self.outcomes, strict=False))
        return (
            self.name,
            sum(kill.moments for kill, _ in ended),
            sum(kill.moments for kill, outcome in ended if not outcome.problem),
            sum(len(each.partial) for each in self.outcomes),
            sum(len(each.left) for each in self.outcomes),
            round(sum(each.seconds for each in self.outcomes)),
        )

    @property
    def is_well(self) -> bool:
        """Whether each round took place, and none has shown a fault."""
        return len(self.outcomes) == len(self.kills) and all(each.is_well for each in self.outcomes)


def chance(seed: str, kind: str) -> random.Random:
    """Return the chance that chooses the moments of a kind."""
    return random.Random(f"{seed} {kind}")  # noqa: S311 (it is no secret)


def kinds(folder: Path, seed: str) -> Iterator[Kind]:
    """Yield all kinds; a seed gives the same parts of the same operations."""
    rounds = LabRounds(folder)
    run = rounds.undisturbed

    def kill(when: str, disturb: Disturb, moments: int = 1) -> Kill:
        return Kill(when, partial(rounds.round, disturb), moments)

    def moments(kind: str, number: int) -> list[Moment]:
        return run.moments(number, chance(seed, kind))

    yield Kind(
        "the controller, after each operation",
        [kill(name, rounds.kill_after(n)) for n, name in enumerate(run.operations, 1)],
    )
    yield Kind(
        "the controller, in an operation",
        [kill(run.name(each), rounds.kill_at(each)) for each in moments("in", IN_OPERATIONS)],
    )
    pairs = zip(*(moments(node, NODES // len(MANAGED)) for node in MANAGED), strict=True)
    yield Kind(
        "a node",
        [
            kill("; ".join(map(run.name, each)), rounds.kill_nodes(each), len(each))
            for each in pairs
        ],
    )
    yield Kind(
        "the power of all nodes",
        [kill(run.name(each), rounds.fail_power(each)) for each in moments("power", POWER)],
        around=power.own_disk(),
    )
    yield from machine_kinds(folder, seed)


def machine_kinds(folder: Path, seed: str) -> Iterator[Kind]:
    """Yield the kind of a virtual machine, which runs meanwhile."""
    kind = "the power of a virtual machine"
    with machine_rounds(folder) as rounds:
        run = rounds.undisturbed
        yield Kind(
            kind,
            [
                Kill(run.name(each), partial(rounds.round, rounds.fail_power(each)))
                for each in run.moments(POWER, chance(seed, kind))
            ],
        )


def run(kind: Kind, last: float) -> None:
    """Run the rounds of a kind, as far as there is time for them."""
    with kind.around:
        for number, kill in enumerate(kind.kills, 1):
            if time.monotonic() > last:
                _log(f"{kind.name}: no time for {len(kind.kills) - number + 1} rounds")
                return
            found = kill.take()
            kind.outcomes.append(found)
            _log(f"{kind.name}, {number}/{len(kind.kills)}: {kill.when}: {words(found)}")


def words(found: Outcome) -> str:
    """Describe an outcome."""
    wrong = [
        *(["the next run failed"] if found.problem else []),
        *(f"in part: {each}" for each in found.partial),
        *(f"left: {each}" for each in found.left),
        *found.problem.splitlines(),
    ]
    return "\n    ".join([f"{'wrong' if wrong else 'well'}, {found.seconds:.0f} s", *wrong])


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(ended: list[Kind]) -> str:
    """Return the table of all kinds."""
    lines = [COLUMNS, tuple("-" * len(each) for each in COLUMNS), *(each.row() for each in ended)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def main() -> int:
    """Run all rounds; return 0 if none has shown a fault."""
    seed = os.environ.get(SEED) or str(secrets.randbelow(1_000_000))
    _log(f"chaos: {SEED}={seed}")
    last = time.monotonic() + LAST_SECONDS
    ended: list[Kind] = []
    try:
        power.clear()
        life.up()
        with tempfile.TemporaryDirectory(prefix="gpu-node-chaos-") as folder:
            for kind in kinds(Path(folder), seed):
                ended.append(kind)
                run(kind, last)
    except LabError as error:
        _log(f"chaos: {error}")
        return 1
    except KeyboardInterrupt:
        _log("chaos: interrupted")
        return 1
    finally:
        print(f"| {SEED}={seed} |\n{table(ended)}", flush=True)
    return 0 if all(each.is_well for each in ended) else 1


if __name__ == "__main__":
    sys.exit(main())
