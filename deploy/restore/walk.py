"""Goes back through the changes of runs, from what a file holds now to what it held before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_node.deploy.restore.records import RunRecord
from gpu_node.facts.probe.records import ABSENT, Change


@dataclass(frozen=True)
class Target:
    """One file: its sha256 now and before the runs, each or "absent".

    `backup` is the run that has a copy of it as it was before, empty if it was absent; `change` is
    the change that is taken back last, or the first one where none is. `problem` is why the file
    is not put back.
    """

    path: str
    user: str
    now: str
    before: str
    change: Change
    backup: str = ""
    problem: str = ""

    @property
    def is_same(self) -> bool:
        """Whether it holds already what it held before the runs."""
        return not self.problem and self.now == self.before


def runs_back_to(runs: Sequence[RunRecord], name: str) -> tuple[RunRecord, ...]:
    """Return the runs from the newest back to the named one; none if there is no such run."""
    names = [run.name for run in runs]
    return tuple(runs[: names.index(name) + 1]) if name in names else ()


def files_of(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Return the paths that runs have changed, each with its user, the latest change first."""
    return {change.path: change.user for run in reversed(runs) for change in run.changes}


def target(path: str, now: str, runs: Sequence[RunRecord]) -> Target:
    """Return how one file is put back; `runs` are the newest first, `now` is its sha256."""
    holds, backup = now, ""
    taken: Change | None = None
    latest: Change | None = None
    for run in runs:
        kept = _kept(run, path)
        for change in reversed([each for each in run.changes if each.path == path]):
            latest = latest or change
            if holds == change.after:
                holds, taken = change.before, change
                backup = run.name if change.before == kept else ""
            elif holds != change.before:
                # What a run has undone by itself holds what it held before; this is neither.
                why = (
                    f"another program changed it after run {run.name}"
                    if holds == now
                    else f"another program changed it between run {run.name} and the one after it"
                )
                return Target(path, change.user, now, now, change, problem=why)
    last = taken or latest
    if last is None:
        raise ValueError(f"no run has changed {path}")
    if holds not in (ABSENT, now) and not backup:
        why = "no run has a copy of what it held"
        return Target(path, last.user, now, now, last, problem=why)
    return Target(path, last.user, now, holds, last, "" if holds == now else backup)


def _kept(run: RunRecord, path: str) -> str:
    """Return the sha256 of the copy that a run has of a file: what it held when the run began."""
    return next(
        (each.before for each in run.changes if each.path == path and each.before != ABSENT), ""
    )


def unread(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Return the files that cannot be taken back through these runs, each with the reason.

    A line without a file is left out under its reason.
    """
    return {each.path or each.why: each.why for run in runs for each in run.unread}


def targets(runs: Sequence[RunRecord], sum_now: Callable[[str, str], str]) -> list[Target]:
    """Return how each file of runs is put back; `sum_now` reads a file by its path and user."""
    left = unread(runs)
    files = {path: user for path, user in files_of(runs).items() if path not in left}
    return [target(path, sum_now(path, user), runs) for path, user in files.items()]
