"""A list of machines to come: CSV lines of name, address and, where it is known, group."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inventories import fields
from inventories.problems import InventoryError, Problem, dotted, shown
from inventories.schema import one_spelling
from inventories.wanted import Model, complaints

_COLUMNS = "name,address or name,address,group"
_LENGTHS = (2, 3)


class _Newcomer(Model):
    name: fields.HostName
    address: fields.Address
    group: fields.Name | None = None


@dataclass(frozen=True)
class Newcomer:
    """A machine that is to be a host, and the line that says so."""

    name: str
    address: str
    group: str | None
    line: int


def wrong(name: str, address: str, group: str | None = None) -> list[Problem]:
    """Return what is wrong with the words for a newcomer, whatever cluster it comes to."""
    said = {"name": name, "address": address}
    return complaints(_Newcomer, said if group is None else {**said, "group": group})


def read_csv(path: Path) -> list[Newcomer]:
    """Return the newcomers in a file; InventoryError tells all that is wrong with it at once.

    The first line may name the columns; blank lines and those that begin with # are passed over.
    """
    found: list[Newcomer] = []
    problems: list[str] = []
    for line, written in _rows(_text(path)):
        cells = _cells(written)
        problems += [_said(path, line, problem) for problem in _told(cells, written, found)]
        if len(cells) in _LENGTHS:
            found.append(Newcomer(cells[0], cells[1], cells[2] if cells[2:] else None, line))
    if not found and not problems:
        problems = [_said(path, 1, Problem((), "no line with a machine", "", _COLUMNS))]
    if problems:
        raise InventoryError(problems)
    return found


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        said = f"{path}: found {reason}; allowed: a file with lines of {_COLUMNS}"
        raise InventoryError([said]) from None
    except UnicodeDecodeError:
        said = "found bytes that are not UTF-8 text; allowed: a file saved as CSV in UTF-8"
        raise InventoryError([f"{path}: {said}"]) from None


def _rows(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, with their numbers."""
    is_first = True
    for number, written in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        # A spreadsheet writes the cells of an empty row as well.
        if not written.strip(" \t,") or written.lstrip().startswith("#"):
            continue
        first = [each.lower() for each in _cells(written)[:2]] if is_first else []
        is_first = False
        if first != ["name", "address"]:
            yield number, written


def _cells(written: str) -> list[str]:
    """Return a line's cells without the blanks around them, and without empty ones at its end."""
    try:
        cells = [each.strip() for each in next(csv.reader([written], skipinitialspace=True))]
    except csv.Error:
        return []
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _told(cells: list[str], written: str, before: list[Newcomer]) -> Iterator[Problem]:
    """Yield what is wrong with a line, by itself and beside those before it."""
    if len(cells) not in _LENGTHS:
        counted = f"{len(cells)} column{'s'[: len(cells) != 1]}"
        yield Problem((), shown(written), counted, _COLUMNS)
        return
    yield from wrong(*cells)
    for each in before:
        if each.name == cells[0]:
            yield Problem(("name",), shown(cells[0]), f"also on line {each.line}", "one line each")
        if one_spelling(each.address) == one_spelling(cells[1]):
            why = f"{each.name} has it too, on line {each.line}"
            yield Problem(("address",), shown(cells[1]), why, "one address a host")


def _said(path: Path, line: int, problem: Problem) -> str:
    key = f" {dotted(problem.path)}:" if problem.path else ""
    return f"{path}:{line}:{key} {problem}"
