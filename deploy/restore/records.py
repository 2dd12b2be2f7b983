"""What the runs of a node recorded there: its files before and after, and what is no file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from gpu_node.deploy.files.replace import ABSENT
from gpu_node.deploy.restore.places import place_of
from gpu_node.inventories.escape import visible

# A node may send anything: the most that is taken of it. A year of one run a week is less.
MOST_RUNS, MOST_LINES, MOST_BYTES = 64, 600, 1 << 18
MOST_FILES, MOST_TOTAL = 100, 64 << 20
RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z(-[0-9a-f]{6})?")
_SUM = rf"{ABSENT}|[0-9a-f]{{64}}"
# As replace.sh writes it: BEFORE AFTER MODE UID:GID USER PATH. A mode has no setuid bit.
_LINE = re.compile(
    rf"(?P<before>{_SUM}) (?P<after>{_SUM}) (?:- -|(?P<mode>[0-7]{{1,3}}) "
    r"(?P<owners>[0-9]{1,10}:[0-9]{1,10})) (?P<user>[^\s:/-][^\s:/]{0,255}) (?P<path>/.{1,4000})"
)
# As noted.sh writes it.
_ALSO = re.compile(r"[+-]( [A-Za-z0-9@%+=:,./_~-]{1,300}){2,4}")
_LATEST = 1 << 34


class Unusable(Exception):
    """The records of a node are not what gpu-node writes; str() names the run and the reason."""


@dataclass(frozen=True)
class Change:
    """One change of a file: its sha256 before and after, or "absent"; mode and owners before.

    `user` is whose home it is in, or root.
    """

    before: str
    after: str
    mode: str
    owners: str
    user: str
    path: str


@dataclass(frozen=True)
class RunRecord:
    """What one run has recorded: `also` are lines of noted.sh, split into words.

    `problem` is why the run cannot be taken back: its record is not as gpu-node writes it.
    """

    name: str
    when: datetime
    changes: tuple[Change, ...] = ()
    also: tuple[tuple[str, ...], ...] = ()
    problem: str = ""


@dataclass
class _Draft:
    name: str
    when: datetime
    changes: list[Change] = field(default_factory=list)
    also: list[tuple[str, ...]] = field(default_factory=list)
    problem: str = ""

    def done(self) -> RunRecord:
        given = tuple(self.changes), tuple(self.also)
        return RunRecord(self.name, self.when, *given, self.problem)


def parse(lines: Sequence[str]) -> tuple[RunRecord, ...]:
    """Return the runs in the lines of runs.sh, the newest first; raises Unusable."""
    if not lines or lines[-1] != "end":
        raise Unusable("the answer of the node is cut short; run again")
    runs = [draft.done() for draft in _drafts(lines[:-1])]
    if len(runs) > MOST_RUNS or len({run.name for run in runs}) != len(runs):
        raise Unusable("gpu-node did not write this list of runs")
    return tuple(runs)


def _drafts(lines: Sequence[str]) -> Iterator[_Draft]:
    draft: _Draft | None = None
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "run":
            if draft is not None:
                yield draft
            draft = _begun(rest)
        elif draft is None:
            raise Unusable(f"gpu-node did not write this: {_shown(line)}")
        else:
            _take(draft, kind, rest)
    if draft is not None:
        yield draft


def _begun(rest: str) -> _Draft:
    seconds, _, name = rest.partition(" ")
    if not RUN_ID.fullmatch(name) or not re.fullmatch(r"[0-9]{1,11}", seconds):
        raise Unusable(f"no run has the name {_shown(name)}")
    when = datetime.fromtimestamp(min(int(seconds), _LATEST), timezone.utc)
    return _Draft(name, when)


def _take(draft: _Draft, kind: str, rest: str) -> None:
    if kind == "also":
        # It is only shown: a line that is none of ours is left out.
        if _ALSO.fullmatch(rest) and len(draft.also) < MOST_LINES:
            draft.also.append(tuple(rest.split(" ")))
    elif kind == "refused":
        draft.problem = draft.problem or visible(rest, 300)
    elif len(draft.changes) >= MOST_LINES:
        draft.problem = draft.problem or f"it has more than {MOST_LINES} lines"
    elif kind == "manifest" and (change := _change(rest)) is not None:
        draft.changes.append(change)
    else:
        draft.problem = draft.problem or f"gpu-node did not write this line: {_shown(rest)}"


def _change(line: str) -> Change | None:
    match = _LINE.fullmatch(line)
    if match is None or place_of(match["path"], match["user"]) is None:
        return None
    if (match["before"] == ABSENT) != (match["mode"] is None):
        return None
    given = {name: value or "" for name, value in match.groupdict().items()}
    return Change(**given)


def _shown(line: str) -> str:
    return repr(visible(line, 160))
