"""What the runs of a node recorded there: its files before and after, and what is no file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from gpu_node.deploy.restore.places import place_of
from gpu_node.facts.probe.records import Change, change_of, is_account, path_of, words_of
from gpu_node.inventories.escape import visible

# A node may send anything: the most that is taken of it. A year of one run a week is less.
MOST_RUNS, MOST_LINES, MOST_BYTES = 64, 600, 1 << 18
MOST_READ = 4 << 20
MOST_FILES, MOST_TOTAL = 100, 64 << 20
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
    "module": (_is_name, _is_name, _is_name),
    "cmake": (_is_name, _is_path),
    "copy": (is_account, _is_path),
    "workspace": (is_account, _is_path, _is_path),
}
_LATEST = 1 << 34


class Unusable(Exception):
    """The records of a node are not what gpu-node writes; str() names the run and the reason."""


@dataclass(frozen=True)
class Unread:
    """A line of a record that cannot be taken back: its file, if it has one, and the reason."""

    path: str
    why: str


@dataclass(frozen=True)
class RunRecord:
    """What one run has recorded: `also` are lines of noted.sh, split into words.

    `unread` costs its file; `problem` is why the whole run cannot be taken back.
    """

    name: str
    when: datetime
    changes: tuple[Change, ...] = ()
    also: tuple[tuple[str, ...], ...] = ()
    problem: str = ""
    unread: tuple[Unread, ...] = ()


@dataclass
class _Draft:
    name: str
    when: datetime
    changes: list[Change] = field(default_factory=list)
    also: list[tuple[str, ...]] = field(default_factory=list)
    problem: str = ""
    unread: list[Unread] = field(default_factory=list)

    def done(self) -> RunRecord:
        given = tuple(self.changes), tuple(self.also)
        return RunRecord(self.name, self.when, *given, self.problem, tuple(self.unread))


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
        if len(draft.also) < MOST_LINES and (words := _also(rest)):
            draft.also.append(words)
    elif kind == "refused":
        draft.problem = draft.problem or visible(rest, 300)
    elif len(draft.changes) + len(draft.unread) >= MOST_LINES:
        draft.problem = draft.problem or f"it has more than {MOST_LINES} lines"
    elif kind != "manifest":
        draft.problem = draft.problem or f"gpu-node did not write this line: {_shown(rest)}"
    elif (change := change_of(rest)) is None:
        why = f"gpu-node did not write this line: {_shown(rest)}"
        draft.unread.append(Unread(path_of(rest), f"run {draft.name}: {why}"))
    elif place_of(change.path, change.user) is None:
        why = f"run {draft.name}: no run of {visible(change.user, 60)} writes this file"
        draft.unread.append(Unread(change.path, why))
    else:
        draft.changes.append(change)


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
