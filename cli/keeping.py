"""Keeps a report, and compares it with an earlier one; a problem of the store is one line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from datetime import datetime

import click

from gpu_node.cli.streams import print_error
from gpu_node.cli.words import moment, wrong_since
from gpu_node.drift.report.model import Report
from gpu_node.history.compare import DEEP, MESH, Snapshot, snapshot
from gpu_node.history.folder import Refused, anonymous_key
from gpu_node.history.since import Before, FactOf, compared, report_in
from gpu_node.history.store import NothingKept, StoreError, identity, opened
from gpu_node.history.when import ALLOWED, LAST, iso
from gpu_node.inventories.errors import as_printed, reason, worded

_ALLOWED = f"{ALLOWED}, or a report that --format json wrote (FILE.json)"


def is_file(word: str) -> bool:
    """Whether --since names a file, not a moment."""
    return word.endswith(".json") or os.sep in word


def earlier(word: str, inventory: str) -> Before:
    """Return the report that --since names; without `at` where no such report is kept."""
    if is_file(word):
        try:
            return report_in(word)
        except OSError as error:
            raise wrong_since(word, reason(error), _ALLOWED) from None
        except ValueError as error:
            raise wrong_since(word, str(error), _ALLOWED) from None
    when, name = moment(word, _ALLOWED), identity(inventory)
    try:
        with opened() as store:
            found = store.report_at(name, None if when is None else int(when.timestamp()))
            if found is None:
                first = store.first_report(name)
                if first is None:
                    store.check_all()
                oldest = f"the first is of {iso(first.at)}" if first else "none is kept"
                then = f"--since {iso(first.at)[:-6]}Z, or {LAST}" if first else ""
                why = f"no report of {inventory} at that time or before: {oldest}"
                raise NothingKept(why, then)
            nodes = store.known(name, found.number)
    except NothingKept as error:
        _print(NothingKept(f"{error}; nothing is compared, so all drift counts", error.then))
        return Before(word)
    except StoreError as error:
        return Before(word, problem=_print(error))

    def since(facts: Iterable[FactOf]) -> dict[FactOf, int]:
        try:
            with opened() as again:
                return again.since(name, facts)
        except StoreError:  # it has its line already
            return {}

    return Before(word, iso(found.at), nodes, since)


def key_of_names() -> bytes:
    """Return the key of --anonymous, which this machine keeps."""
    try:
        return anonymous_key()
    except Refused as error:
        problem = worded(str(error), "the key for names is kept there", "a folder of this user's")
        raise click.ClickException(f"--anonymous: {problem}") from None


def finished(
    report: Report,
    inventory: str,
    before: Before | None,
    is_kept: bool,
    deep: bool,
    every_login: bool,
) -> Report:
    """Return a report, compared with an earlier one if there is one; keep it if `is_kept`."""
    options = {DEEP: deep, MESH: every_login}
    now = snapshot(report, frozenset(name for name, is_on in options.items() if is_on))
    if is_kept:
        _keep(report, inventory, now, before.problem if before is not None else "")
    return report if before is None else compared(report, now, before)


def kept(report: Report, inventory: str) -> Report:
    """Keep the first report of an inventory, and return it."""
    return finished(report, inventory, None, is_kept=True, deep=False, every_login=False)


def _keep(report: Report, inventory: str, now: Snapshot, known: str) -> None:
    try:
        with opened(making=True) as store:
            made = datetime.fromisoformat(report.generated)
            store.keep(identity(inventory), int(made.timestamp()), now)
    except StoreError as error:
        _print(error, known)


def keep_run(inventory: str, kind: str, run: str, words: Mapping[str, str]) -> None:
    """Keep what a run of a kind, by its id, has done on each node."""
    try:
        with opened(making=True) as store:
            store.keep_run(identity(inventory), int(time.time()), kind, run, words)
    except StoreError as error:
        _print(error)


def _print(error: StoreError, known: str = "") -> str:
    """Print the line of a problem of the store unless it is known, and return it."""
    line = as_printed(f"history: {worded(str(error), then=error.then)}")
    if line != known:
        print_error(line)
    return line
