"""The kept reports, in SQLite: of each one only what differs from the report before it.

A row of `fact` or `finding` holds from the report `since` until the report `until`, which has
another value or none; what still holds has a number that no report has. A report that finds
nothing new adds one row. A text is stored once, whatever number of nodes and reports has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_node.drift.report.change_words import ANSWER
from gpu_node.drift.report.signs import SEVERITY_STYLES
from gpu_node.facts.ask.pyinfra_file import pyinfra_file
from gpu_node.history import folder
from gpu_node.inventories.escape import visible

if TYPE_CHECKING:  # a list of changes needs no rule
    from gpu_node.history.compare import Difference, Node, Snapshot

RUNS = ("deploy", "restore")
# What reads this version; a newer one is left alone.
VERSION = 1
# Of each inventory so many reports are kept, for so long, in a file of about this size.
MOST_REPORTS, MOST_DAYS, MOST_BYTES = 1000, 180, 128_000_000
# So many reports more before some are removed: it takes longer than a report.
_SLACK = 50
_PAGE = 4096
# Another run holds the store for milliseconds.
_WAIT_SECONDS = 2.0
_SCHEMA = """
CREATE TABLE inventory (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE report (
    id INTEGER PRIMARY KEY AUTOINCREMENT, inventory INTEGER NOT NULL, at INTEGER NOT NULL,
    asked TEXT NOT NULL, nodes TEXT NOT NULL);
CREATE TABLE node (
    id INTEGER PRIMARY KEY, inventory INTEGER NOT NULL, name TEXT NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, UNIQUE (inventory, name));
CREATE TABLE value (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, text TEXT NOT NULL);
CREATE TABLE fact (
    node INTEGER NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,
    since INTEGER NOT NULL, until INTEGER NOT NULL);
CREATE TABLE finding (
    node INTEGER NOT NULL, rule TEXT NOT NULL, subject TEXT NOT NULL, severity TEXT NOT NULL,
    found INTEGER NOT NULL, wanted INTEGER NOT NULL, asked TEXT NOT NULL,
    since INTEGER NOT NULL, until INTEGER NOT NULL);
CREATE INDEX report_of ON report (inventory, at);
CREATE INDEX fact_of ON fact (node, until);
CREATE INDEX finding_of ON finding (node, until);
"""
# The runs that changed nodes; a store of an earlier version of this program has no such table.
_RUNS = (
    "CREATE TABLE IF NOT EXISTS run (path TEXT NOT NULL, at INTEGER NOT NULL, node TEXT NOT NULL, "
    "kind TEXT NOT NULL, name TEXT NOT NULL, words TEXT NOT NULL)"
)
_MOST_RUNS = 10_000
# The report after all others: what holds until then still holds.
_OPEN = 1 << 62
_SEVERITIES = tuple(SEVERITY_STYLES)

# The reports of inventory ?1 before report ?2, and what only these have.
_REMOVE = (
    "DELETE FROM report WHERE inventory = ?1 AND id < ?2",
    "DELETE FROM fact WHERE node IN (SELECT id FROM node WHERE inventory = ?1) AND (until <= ?2 "
    "OR node IN (SELECT id FROM node WHERE last < ?2))",
    "DELETE FROM finding WHERE node IN (SELECT id FROM node WHERE inventory = ?1) AND (until <= ?2 "
    "OR node IN (SELECT id FROM node WHERE last < ?2))",
    "UPDATE fact SET since = ?2 WHERE since < ?2 AND node IN "
    "(SELECT id FROM node WHERE inventory = ?1)",
    "UPDATE finding SET since = ?2 WHERE since < ?2 AND node IN "
    "(SELECT id FROM node WHERE inventory = ?1)",
    "DELETE FROM node WHERE inventory = ?1 AND last < ?2",
    "UPDATE node SET first = ?2 WHERE inventory = ?1 AND first < ?2",
)
# Texts of no row, which stay in the file.
_UNUSED = (
    "DELETE FROM value WHERE id NOT IN (SELECT value FROM fact UNION "
    "SELECT found FROM finding UNION SELECT wanted FROM finding)"
)
# How many bytes each node fills; a row has about _ROW beside its texts, with its place in an index.
_ROW = 150
_FILLED = (
    "SELECT node.id, inventory, node.name, last, sum(size) FROM ("
    "SELECT node, length(name) + length(text) + ?1 AS size "
    "FROM fact JOIN value ON value.id = value "
    "UNION ALL SELECT node, length(rule) + length(subject) + length(f.text) + length(w.text) + ?1 "
    "FROM finding JOIN value f ON f.id = found JOIN value w ON w.id = wanted"
    ") JOIN node ON node.id = node GROUP BY node.id"
)
# What does not hold any more of a node is removed; the rest holds since its last report.
_SHORTEN = (
    "DELETE FROM fact WHERE node = :node AND until != :open",
    "DELETE FROM finding WHERE node = :node AND until != :open",
    "UPDATE fact SET since = :last WHERE node = :node",
    "UPDATE finding SET since = :last WHERE node = :node",
    "UPDATE node SET first = :last WHERE id = :node",
)


class StoreError(Exception):
    """The store cannot be used; `str()` is the reason, and `then` the next step."""

    def __init__(self, why: str, then: str = "") -> None:
        super().__init__(why)
        self.then = then


class NothingKept(StoreError):
    """No report is kept that is asked for: it is the first day."""


class Kept(NamedTuple):
    """A kept report: its number and its time, in seconds since 1970."""

    number: int
    at: int


@dataclass(frozen=True)
class Event:
    """A change that a kept report shows: `kind` is fact, new, gone, changed or first.

    Of a fact `before` and `now` are its texts (None: the node did not have it); of a finding,
    `before` and `now` are its severities, and `words` is what was found. Of the first report of a
    node all is empty but the node. Or a run, of a `kind` in RUNS: `name` is its id, and `words`
    what it has done.
    """

    at: int
    node: str
    kind: str
    name: str = ""
    subject: str = ""
    before: str | None = None
    now: str | None = None
    words: str = ""


def identity(inventory: str) -> str:
    """Return under which name the reports of an inventory are kept: its path behind all links.

    A cluster file and the .py file beside it are one inventory.
    """
    file = pyinfra_file(inventory)
    name = os.path.realpath(file) if os.path.exists(file) else file
    return name.encode("utf-8", "backslashreplace").decode()


@contextmanager
def opened(making: bool = False) -> Iterator[Store]:
    """Open the store, and close it; StoreError where it cannot be used, or does not exist.

    `making`: it is made where it does not exist.
    """
    try:
        file = folder.path()
        if making:
            folder.made(file)
        is_there = making or folder.existing(file)
        if is_there:
            base = sqlite3.connect(file, timeout=_WAIT_SECONDS, isolation_level=None)
            with closing(base):
                store = Store(base)
                if making or store.version:  # 0 before the first report
                    yield store
                    return
        raise NothingKept("no report is kept yet", "gpu-node drift INVENTORY keeps one")
    except folder.Refused as error:
        raise StoreError(visible(str(error))) from None
    except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
        # The others: a damaged file has values of any type.
        raise _unusable(error, visible(str(file))) from None


def _unusable(error: Exception, file: str) -> StoreError:
    words = visible(str(error))
    if "locked" in words:
        return StoreError(f"{file} is locked by another process for more than {_WAIT_SECONDS:g} s")
    if not isinstance(error, sqlite3.Error) or "malformed" in words or "not a database" in words:
        return StoreError(f"{file} is damaged: {words}", "remove it: a new one is made")
    return StoreError(f"{file}: {words}")


class Store:
    """The opened store."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base
        # A damaged page is an error, and no value of another type.
        self._base.execute("PRAGMA cell_size_check = ON")
        self._base.execute("PRAGMA synchronous = NORMAL")
        self.version = self._check()
        self._values: dict[str, int] = {}

    def _check(self) -> int:
        version = int(self._one("PRAGMA user_version") or 0)
        if version > VERSION:
            raise StoreError(
                f"a newer gpu-node has written it (format {version}, this one reads {VERSION})",
                "update gpu-node, or --no-history",
            )
        return version

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the store as a whole or not at all; the tables are made where there are none."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            if not self._check():
                for statement in _SCHEMA.split(";"):
                    self._base.execute(statement)
                self._base.execute(f"PRAGMA user_version = {VERSION}")
            yield
            self._base.execute("COMMIT")
        except BaseException:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise

    def check_all(self) -> None:
        """Raise where a part of the file is damaged: a damaged index finds no row.

        It reads the whole file: a second for the largest one.
        """
        if (found := self._one("PRAGMA integrity_check(1)")) != "ok":
            raise sqlite3.DatabaseError(f"malformed: {found}")

    def report_at(self, inventory: str, at: int | None = None, order: int = -1) -> Kept | None:
        """Return the last report of an inventory, made at a moment or before it."""
        found = self._base.execute(
            "SELECT report.id, at FROM report JOIN inventory ON inventory.id = inventory "
            "WHERE path = ?1 AND (?2 IS NULL OR at <= ?2) ORDER BY ?3 * report.id LIMIT 1",
            (inventory, at, order),
        ).fetchone()
        return None if found is None else Kept(*found)

    def first_report(self, inventory: str) -> Kept | None:
        """Return the oldest report that is kept of an inventory."""
        return self.report_at(inventory, order=1)

    def known(self, inventory: str, report: int | None = None) -> dict[str, Node]:
        """Return what was known of the nodes of an inventory after a report; None: the last one.

        Of a node that a report did not read it is what the one before it knew.
        """
        from gpu_node.history.compare import Key, Known, Node

        numbers = self._nodes(inventory)
        nodes = {number: Node() for number in numbers.values()}
        given = (_OPEN - 1 if report is None else report, inventory)
        for node, name, text in self._base.execute(
            "SELECT node, fact.name, text FROM fact JOIN node ON node.id = node "
            "JOIN inventory ON inventory.id = inventory JOIN value ON value.id = value "
            "WHERE until > ?1 AND since <= ?1 AND path = ?2",
            given,
        ):
            nodes[node].facts[_text(name)] = _text(text)
        read: dict[int, frozenset[str]] = {}
        for node, rule, subject, severity, found, wanted, asked, since, names in self._base.execute(
            "SELECT node, rule, subject, severity, f.text, w.text, finding.asked, since, nodes "
            "FROM finding JOIN node ON node.id = node JOIN inventory ON "
            "inventory.id = node.inventory JOIN value f ON f.id = found "
            "JOIN value w ON w.id = wanted LEFT JOIN report ON report.id = since "
            "WHERE until > ?1 AND since <= ?1 AND path = ?2",
            given,
        ):
            if since not in read:
                read[since] = frozenset(json.loads(names or "[]"))
            options = frozenset(asked.split())
            if severity not in _SEVERITIES:
                raise ValueError(f"severity {severity!r}")
            words = _text(found), _text(wanted)
            known = Known(severity, *words, since, options, read[since])
            nodes[node].findings[Key(_text(rule), _text(subject))] = known
        return {name: nodes[number] for name, number in numbers.items() if nodes[number].facts}

    def since(
        self, inventory: str, facts: Iterable[tuple[str, str, str]]
    ) -> dict[tuple[str, str, str], int]:
        """Return when the first reports were made since which nodes' facts have their texts.

        A fact of which the last report has another text is left out.
        """
        nodes = self._nodes(inventory)
        found = {}
        for each in facts:
            node, fact, text = each
            at = self._one(
                "SELECT at FROM fact JOIN value ON value.id = value "
                "JOIN report ON report.id = since "
                "WHERE node = ? AND until = ? AND name = ? AND text = ?",
                nodes.get(node),
                _OPEN,
                fact,
                text,
            )
            if at is not None:
                found[each] = int(at)
        return found

    def keep(self, inventory: str, at: int, now: Snapshot) -> None:
        """Keep a report that was made `at` a moment: what differs from what was known before."""
        from gpu_node.history.compare import difference

        with self._changing():
            self._base.execute("INSERT OR IGNORE INTO inventory (path) VALUES (?)", (inventory,))
            number = self._one("SELECT id FROM inventory WHERE path = ?", inventory)
            then = self.known(inventory)
            asked = " ".join(sorted(now.asked))
            names = json.dumps(sorted(now.read), separators=(",", ":"))
            report = self._base.execute(
                "INSERT INTO report (inventory, at, asked, nodes) VALUES (?, ?, ?, ?)",
                (number, at, asked, names),
            ).lastrowid
            self._base.executemany(
                "INSERT INTO node (inventory, name, first, last) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (inventory, name) DO UPDATE SET last = excluded.last",
                [(number, name, report, report) for name in now.nodes],
            )
            self._change(difference(then, now), then, now, self._nodes(inventory), report, asked)
            self._remove_old(int(number), at, now)

    def keep_run(
        self, inventory: str, at: int, kind: str, name: str, words: Mapping[str, str]
    ) -> None:
        """Keep a run that ended `at` a moment, by its kind and its id; `words` are of each node."""
        with self._changing():
            self._base.execute(_RUNS)
            self._base.executemany(
                "INSERT INTO run (path, at, node, kind, name, words) VALUES (?, ?, ?, ?, ?, ?)",
                [(inventory, at, node, kind, name, each) for node, each in words.items()],
            )
            self._base.execute(
                "DELETE FROM run WHERE at < ? OR rowid <= (SELECT max(rowid) FROM run) - ?",
                (at - MOST_DAYS * 86400, _MOST_RUNS),
            )

    def _runs(self, inventory: str, node: str | None) -> Iterator[Event]:
        if not self._one("SELECT 1 FROM sqlite_master WHERE name = 'run'"):
            return
        for at, name, kind, run, words in self._base.execute(
            "SELECT at, node, kind, name, words FROM run "
            "WHERE path = ?1 AND (?2 IS NULL OR node = ?2) ORDER BY rowid",
            (inventory, node),
        ):
            if kind not in RUNS:
                raise ValueError(f"run {kind!r}")
            yield Event(int(at), _text(name), kind, _text(run), words=_text(words))

    def _change(
        self,
        found: Difference,
        then: Mapping[str, Node],
        now: Snapshot,
        nodes: Mapping[str, int],
        report: int | None,
        asked: str,
    ) -> None:
        """End what does not hold any more, and add what does since this report."""
        ended, added = [], []
        for node, fact, before, text in found.facts:
            if before is not None:
                ended.append((report, nodes[node], _OPEN, fact))
            added.append((nodes[node], fact, self._value(text), report, _OPEN))
        self._base.executemany(
            "UPDATE fact SET until = ? WHERE node = ? AND until = ? AND name = ?", ended
        )
        self._base.executemany(
            "INSERT INTO fact (node, name, value, since, until) VALUES (?, ?, ?, ?, ?)", added
        )
        changed = (*found.worse, *found.better)
        self._base.executemany(
            "UPDATE finding SET until = ? "
            "WHERE node = ? AND until = ? AND rule = ? AND subject = ?",
            [(report, nodes[each.node], _OPEN, *each.key) for each in (*found.gone, *changed)],
        )
        rows = []
        for node, key in (*found.absent_before, *changed):
            each = now.nodes[node].findings[key]
            words = self._value(each.found), self._value(each.wanted)
            rows.append((nodes[node], *key, each.severity, *words, asked, report, _OPEN))
        self._base.executemany(
            "INSERT INTO finding "
            "(node, rule, subject, severity, found, wanted, asked, since, until) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        # What is found without an option is judged without it from now on.
        self._base.executemany(
            "UPDATE finding SET asked = ? "
            "WHERE node = ? AND until = ? AND rule = ? AND subject = ?",
            [
                (" ".join(sorted(known.asked & now.asked)), nodes[name], _OPEN, *key)
                for name, node in now.nodes.items()
                for key in node.findings
                if (known := _known(then, name, key)) is not None and known.asked - now.asked
            ],
        )

    def _remove_old(self, inventory: int, at: int, now: Snapshot) -> None:
        """Remove reports beyond the limits, and what only they have.

        If the file is too large, a node that fills more than its share is the first to lose what
        was: no node has the reports about others removed.
        """
        oldest = at - MOST_DAYS * 86400
        if self._is_large():
            self._shorten(inventory, now)
        is_large = self._is_large()
        for number, count, first in self._base.execute(
            "SELECT inventory, count(*), min(at) FROM report GROUP BY inventory"
        ).fetchall():
            most = count // 2 if is_large and number == inventory else MOST_REPORTS
            if count <= most + _SLACK and first >= oldest - 86400 and not is_large:
                continue
            kept = self._one(
                "SELECT min(id) FROM (SELECT id, at FROM report WHERE inventory = ? "
                "ORDER BY id DESC LIMIT ?) WHERE at >= ?",
                number,
                max(most, 1),
                oldest,
            )
            self._remove_before(number, kept)
        self._base.execute("DELETE FROM inventory WHERE id NOT IN (SELECT inventory FROM report)")

    def _is_large(self) -> bool:
        pages = int(self._one("PRAGMA page_count")) - int(self._one("PRAGMA freelist_count"))
        return pages * _PAGE > MOST_BYTES

    def _shorten(self, inventory: int, now: Snapshot) -> None:
        """Leave of each node that fills more than its share only what holds now."""
        nodes = self._base.execute(_FILLED, (_ROW,)).fetchall()
        share = MOST_BYTES // max(1, len(nodes))
        for node, of, name, last, filled in nodes:
            if filled <= share:
                continue
            kept = now.nodes.get(name) if of == inventory else None
            for (fact,) in self._base.execute(
                "SELECT name FROM fact WHERE node = ? AND until = ?", (node, _OPEN)
            ).fetchall():
                if kept is not None and kept.is_read and fact not in kept.facts:
                    self._base.execute("DELETE FROM fact WHERE node = ? AND name = ?", (node, fact))
            for statement in _SHORTEN:
                self._base.execute(statement, {"node": node, "last": last, "open": _OPEN})
        self._base.execute(_UNUSED)

    def _remove_before(self, inventory: int, report: int | None) -> None:
        """Remove the reports before one; None: all. What held then holds since the first kept."""
        given = (inventory, _OPEN if report is None else report)
        for statement in _REMOVE:
            self._base.execute(statement, given)
        self._base.execute(_UNUSED)

    def count(self, inventory: str) -> int:
        """Return how many reports of an inventory are kept."""
        return int(
            self._one(
                "SELECT count(*) FROM report JOIN inventory ON inventory.id = inventory "
                "WHERE path = ?",
                inventory,
            )
        )

    def nodes(self, inventory: str) -> list[str]:
        """Return the names of the nodes that kept reports and runs of an inventory have."""
        runs = (each.node for each in self._runs(inventory, None))
        return list(dict.fromkeys((*self._nodes(inventory), *runs)))

    def events(self, inventory: str, node: str | None = None, since: int = 0) -> list[Event]:
        """Return the changes of an inventory's nodes, or of one, and its runs, the oldest first.

        `since`: only those that reports show which were made then or later.
        """
        number = self._one("SELECT id FROM inventory WHERE path = ?", inventory)
        times = dict(self._base.execute("SELECT id, at FROM report WHERE inventory = ?", (number,)))
        found = sorted(self._events(number, node), key=lambda each: each[0])
        changes = [Event(times[report], *what) for report, *what in found if report in times]
        every = sorted([*changes, *self._runs(inventory, node)], key=lambda each: each.at)
        return [each for each in every if each.at >= since]

    def _events(self, inventory: object, node: str | None) -> Iterator[tuple[Any, ...]]:
        """Yield the number of a report, and the fields of an event but the time."""
        given = (inventory, node)
        first: dict[str, int] = {}
        # The first report that has more of a node than whether it answers.
        read: dict[str, int] = {}
        for name, number in self._base.execute(
            "SELECT name, first FROM node WHERE inventory = ?1 AND (?2 IS NULL OR name = ?2)", given
        ):
            first[name] = number
            yield number, name, "first"
        was: dict[tuple[str, str], str] = {}
        for name, fact, text, since in self._base.execute(
            "SELECT node.name, fact.name, text, since FROM fact JOIN node ON node.id = node "
            "JOIN value ON value.id = value "
            "WHERE inventory = ?1 AND (?2 IS NULL OR node.name = ?2) ORDER BY since",
            given,
        ):
            if fact != ANSWER:
                read.setdefault(name, since)
            if since > (first if fact == ANSWER else read)[name]:
                yield since, name, "fact", fact, "", was.get((name, fact)), text
            was[name, fact] = text
        rows = self._base.execute(
            "SELECT node.name, rule, subject, since, until, severity, text "
            "FROM finding JOIN node ON node.id = node JOIN value ON value.id = found "
            "WHERE inventory = ?1 AND (?2 IS NULL OR node.name = ?2) ORDER BY since",
            given,
        ).fetchall()
        begins = {row[:4] for row in rows}
        ends = {(*row[:3], row[4]): row[5] for row in rows}
        for name, rule, subject, since, until, severity, words in rows:
            before = ends.get((name, rule, subject, since))
            if since > read.get(name, since):
                kind = "new" if before is None else "changed"
                yield since, name, kind, rule, subject, before, severity, words
            if until != _OPEN and (name, rule, subject, until) not in begins:
                yield until, name, "gone", rule, subject, severity, None, words

    def _nodes(self, inventory: str) -> dict[str, int]:
        return dict(
            self._base.execute(
                "SELECT name, node.id FROM node JOIN inventory ON inventory.id = inventory "
                "WHERE path = ? ORDER BY node.id",
                (inventory,),
            )
        )

    def _value(self, text: str) -> int:
        """Return the number of a text, which is added where the store does not have it."""
        if text not in self._values:
            digest = hashlib.sha256(text.encode()).digest()
            self._base.execute(
                "INSERT OR IGNORE INTO value (digest, text) VALUES (?, ?)", (digest, text)
            )
            self._values[text] = self._one("SELECT id FROM value WHERE digest = ?", digest)
        return self._values[text]

    def _one(self, statement: str, *given: object) -> Any:
        found = self._base.execute(statement, given).fetchone()
        return None if found is None else found[0]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} in place of a text")
    return value


def _known(then: Mapping[str, Node], name: str, key: Any) -> Any:
    return then[name].findings.get(key) if name in then else None
