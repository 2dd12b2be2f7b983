"""What the runs of a node recorded there, and the files that gpu-node writes on nodes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpu_node.drift.tables import rows
from gpu_node.facts.globs import matches
from gpu_node.facts.probe.records import Change, change_of, is_account, path_of, words_of
from gpu_node.inventories.escape import visible

TABLE = Path(__file__).parents[1] / "written.tsv"
# A node may send anything: the most that is taken of it. A year of one run a week is less.
MOST_RUNS, MOST_LINES, MOST_BYTES = 64, 600, 1 << 18
MOST_FILES = 100
RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z(-[0-9a-f]{6})?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9@%+=:,.~_-]{0,299}")
_METADATA = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*-[A-Za-z0-9][A-Za-z0-9_.!+]*\.dist-info")


def _is_name(word: str) -> bool:
    return _NAME.fullmatch(word) is not None


def _is_path(word: str) -> bool:
    return word.startswith("/") and word.isprintable() and len(word) <= 4096


def _is_metadata(word: str) -> bool:
    return _METADATA.fullmatch(word) is not None


# What a run notes beside files, as noted.sh writes it: the kind, and what its words are. They are
# to be words of a command: none is an option.
_ALSO = {
    "deb": (_is_name, _is_name),
    "rpm": (_is_name, _is_name),
    "wheels": (is_account, _is_path, _is_metadata),
    "base-wheels": (is_account, _is_path, _is_metadata),
    "module": (_is_name, _is_name, _is_name),
    "persistence": (_is_name,),
    "cmake": (_is_name, _is_path),
    "copy": (is_account, _is_path),
    "workspace": (is_account, _is_path, _is_path),
}
_LATEST = 1 << 34


class Unusable(Exception):
    """The records of a node are not what gpu-node writes; str() names the run and the reason."""


@dataclass
class RunRecord:
    """What one run has recorded: `also` are lines of noted.sh, split into words.

    `unread` has the files of lines that cannot be taken back, each with the reason, and a line
    without a file under its reason; `problem` is why the whole run cannot be taken back.
    """

    name: str
    when: datetime
    changes: list[Change] = field(default_factory=list)
    also: list[tuple[str, ...]] = field(default_factory=list)
    problem: str = ""
    unread: dict[str, str] = field(default_factory=dict)


class Place(NamedTuple):
    """A row of written.tsv, which says what its columns are; what is `-` there is empty here."""

    area: str
    path: str
    live: str
    then: str

    @property
    def pattern(self) -> str:
        """The path as a pattern for any home."""
        return f"*{self.path[1:]}" if self.in_home else self.path

    @property
    def in_home(self) -> bool:
        """Whether it is in a home, where its user writes it."""
        return self.path.startswith("~")


@cache
def places() -> tuple[Place, ...]:
    """Return the table."""
    return tuple(
        Place(**{key: "" if value == "-" else value for key, value in row.items()})
        for row in rows(TABLE)
    )


def place_of(path: str, user: str) -> Place | None:
    """Return the place of a file that a run of `user` wrote; None where no run writes it.

    Files of the system are root's; those of a home may be any user's.
    """
    if not _is_plain(path):
        return None
    known = (each for each in places() if each.in_home or user == "root")
    return next((each for each in known if matches(path, each.pattern)), None)


def _is_plain(path: str) -> bool:
    """Whether a path is absolute, in one spelling, and below no file system of the kernel."""
    is_simple = path.startswith("/") and not re.search(r"//|/\.{0,2}(/|$)", path)
    return is_simple and path.isprintable() and not re.match(r"/(proc|sys|dev|run)/", path)


def runs_back_to(runs: Sequence[RunRecord], name: str) -> tuple[RunRecord, ...]:
    """Return the runs from the newest back to the named one; none if there is no such run."""
    names = [run.name for run in runs]
    return tuple(runs[: names.index(name) + 1]) if name in names else ()


def files_of(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Return the paths that runs have changed, each with its user."""
    return {change.path: change.user for run in reversed(runs) for change in run.changes}


def unread(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Return the files that cannot be taken back through these runs, each with the reason."""
    return {path: why for run in runs for path, why in run.unread.items()}


def parse(lines: Sequence[str]) -> tuple[RunRecord, ...]:
    """Return the runs in the lines of runs.sh, the newest first; raises Unusable."""
    if not lines or lines[-1] != "end":
        raise Unusable("the answer of the node is cut short; run again")
    runs: list[RunRecord] = []
    for line in lines[:-1]:
        kind, _, rest = line.partition(" ")
        if kind == "run":
            runs.append(_begun(rest))
        elif runs:
            _take(runs[-1], kind, rest)
        else:
            raise Unusable(f"gpu-node did not write this: {_shown(line)}")
    if len(runs) > MOST_RUNS or len({run.name for run in runs}) != len(runs):
        raise Unusable("gpu-node did not write this list of runs")
    return tuple(runs)


def _begun(rest: str) -> RunRecord:
    seconds, _, name = rest.partition(" ")
    if not RUN_ID.fullmatch(name) or not re.fullmatch(r"[0-9]{1,11}", seconds):
        raise Unusable(f"no run has the name {_shown(name)}")
    return RunRecord(name, datetime.fromtimestamp(min(int(seconds), _LATEST), timezone.utc))


def _take(run: RunRecord, kind: str, rest: str) -> None:
    if kind == "also":
        # It is only shown: a line that is none of ours is left out.
        if len(run.also) < MOST_LINES and (words := _also(rest)):
            run.also.append(words)
    elif kind == "refused":
        run.problem = run.problem or visible(rest, 300)
    elif len(run.changes) + len(run.unread) >= MOST_LINES:
        run.problem = run.problem or f"it has more than {MOST_LINES} lines"
    elif kind != "manifest":
        run.problem = run.problem or f"gpu-node did not write this line: {_shown(rest)}"
    elif (change := change_of(rest)) is None:
        why = f"run {run.name}: gpu-node did not write this line: {_shown(rest)}"
        run.unread[path_of(rest) or why] = why
    elif place_of(change.path, change.user) is None:
        user = visible(change.user, 60)
        run.unread[change.path] = f"run {run.name}: no run of {user} writes this file"
    else:
        run.changes.append(change)


def _also(line: str) -> tuple[str, ...]:
    """Return the words of a line of noted.sh; none if it is not one."""
    words = words_of(line)
    sign, kind = (*words, "", "")[:2]
    kinds = _ALSO.get(kind, ())
    if sign not in ("+", "-") or not kinds or len(words) != len(kinds) + 2:
        return ()
    is_ours = all(is_right(word) for is_right, word in zip(kinds, words[2:], strict=True))
    return words if is_ours else ()


def _shown(line: str) -> str:
    return repr(visible(line, 160))
