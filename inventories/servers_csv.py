"""A list of machines to come: CSV lines of name, address and, where known, group and host key."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from gpu_node.inventories.advice import meant
from gpu_node.inventories.errors import InventoryError, Problem, reason, shown
from gpu_node.inventories.fields import kinds as fields
from gpu_node.inventories.fields.addresses import is_address, login_of
from gpu_node.inventories.keys import complaints
from gpu_node.inventories.model import Model
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.regular_file import NOT_UTF8, content
from gpu_node.inventories.schema import one_spelling

_COLUMNS = ("name", "address", "group", "fingerprint")
_NEEDED = _COLUMNS[:2]
_ORDER = "name,address[,group[,fingerprint]]"
_HEADER = "name and address, and if wanted group and fingerprint, once each"


# What every machine takes for itself, whatever a resolver says.
LOOPBACK = re.compile(
    r"(.*\.)?localhost|localhost\.localdomain|localhost[46](\.localdomain[46])?|ip6-(localhost|loopback)"
)


def _name(value: object) -> object:
    """Say of a name why it is none, where the words of all names do not tell."""
    if isinstance(value, str):
        if is_address(value):
            raise ValueError("an address, not a name")
        if LOOPBACK.fullmatch(value.lower()):
            raise ValueError("reserved: it resolves to the local machine")
    return value


Fingerprint = Annotated[
    str,
    fields.matching(r"SHA256:[A-Za-z0-9+/]{43}"),
    Field(description="SHA256: and 43 base64 characters, as ssh-keygen -lf shows it"),
]


class _Key(Model):
    fingerprint: Fingerprint | None = None


class _Newcomer(_Key):
    name: Annotated[fields.HostName, BeforeValidator(_name)]
    address: fields.Address
    group: fields.Name | None = None


@dataclass(frozen=True)
class Newcomer:
    """A machine that is to be a host, and the line that says so."""

    name: str
    address: str
    group: str | None
    line: int
    # Of the host key that it must have.
    fingerprint: str | None = None


def wrong(name: str, address: str) -> list[Problem]:
    """Return what is wrong with the words for a newcomer, whatever cluster it comes to."""
    found = complaints(_Newcomer, {"name": name, "address": address})
    near = meant(_Newcomer, ("name",), name)
    then = f"write {near}" if near else ""
    return [each._replace(then=then) if each.path == ("name",) else each for each in found]


def wrong_fingerprint(word: str) -> list[Problem]:
    """Return what is wrong with the fingerprint of a host key, as ssh-keygen would show it."""
    return complaints(_Key, {"fingerprint": word})


def read_csv(path: Path) -> list[Newcomer]:
    """Return the newcomers in a file; InventoryError lists everything that is wrong.

    The first line may name the columns; blank lines and those that begin with # are passed over.
    """
    newcomers: list[Newcomer] = []
    rows = list(_rows(_text(path)))
    columns = _named_columns(path, *rows[0]) if rows else None
    problems: list[str] = []
    for line, written in rows[1:] if columns else rows:
        row = _by_column(columns, _cells(written))
        problems += [each.at(path, line) for each in _problems_of(row, written, newcomers, columns)]
        if row is not None:
            name, address = row.get("name", ""), row.get("address", "")
            group, key = row.get("group"), row.get("fingerprint")
            newcomers.append(Newcomer(name, address, group, line, key))
    if not newcomers and not problems:
        problems = [Problem((), "no line with a machine", "", _ORDER).at(path, 1)]
    if problems:
        raise InventoryError(problems)
    return newcomers


def _text(path: Path) -> str:
    try:
        return content(path).decode("utf-8-sig")
    except OSError as error:
        found = reason(error)
        problem = Problem((), found, "", f"a file with lines of {_ORDER}")
        raise InventoryError([problem.at(path)]) from None
    except UnicodeDecodeError as error:
        allowed = "a file saved as CSV in UTF-8"
        problem = Problem((), NOT_UTF8, f"byte {error.start}", allowed)
        raise InventoryError([problem.at(path)]) from None


def _rows(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, with their numbers."""
    for number, written in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        # A spreadsheet writes the cells of an empty row as well.
        if not written.strip(" \t,") or written.lstrip().startswith("#"):
            continue
        yield number, written


def _named_columns(path: Path, line: int, written: str) -> tuple[str, ...] | None:
    """Return the columns that a first line names; None where it is a machine's."""
    named = tuple(cell.lower() for cell in _cells(written))
    known = set(named) & set(_COLUMNS)
    # A machine may have the name of a column; that of `name` has not.
    if not known or (_NEEDED[0] not in known and known < set(named)):
        return None
    if len({*named}) < len(named) or not {*_NEEDED} <= {*named} <= {*_COLUMNS}:
        raise InventoryError([Problem((), shown(written), "", _HEADER).at(path, line)])
    return named


def _by_column(columns: tuple[str, ...] | None, cells: list[str]) -> dict[str, str] | None:
    """Return what a line says, by columns; None where it has another number of cells."""
    most = len(columns or _COLUMNS)
    if not len(_NEEDED) <= len(cells) <= most:
        return None
    row = zip(columns or _COLUMNS, cells, strict=False)
    # An empty cell says nothing, but of what each machine needs.
    return {key: cell for key, cell in row if cell or key in _NEEDED}


def _cells(written: str) -> list[str]:
    """Return a line's cells without the blanks around them, and without empty ones at its end."""
    try:
        cells = [each.strip() for each in next(csv.reader([written], skipinitialspace=True))]
    except csv.Error:
        return []
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _problems_of(
    row: dict[str, str] | None,
    written: str,
    before: list[Newcomer],
    columns: tuple[str, ...] | None,
) -> Iterator[Problem]:
    """Yield what is wrong with a line, by itself and beside those before it."""
    if row is None:
        count = len(_cells(written))
        why = counted(count, "column") + _other_separator(written, count)
        yield Problem((), shown(written), why, ",".join(columns) if columns else _ORDER)
        return
    yield from (_of_a_list(complaint, row) for complaint in complaints(_Newcomer, row))
    name, address = row.get("name", ""), row.get("address", "")
    for each in before:
        if each.name == name:
            yield Problem(("name",), shown(name), f"also on line {each.line}", "one line each")
        if one_spelling(each.address) == one_spelling(address):
            why = f"{each.name} has it too, on line {each.line}"
            yield Problem(("address",), shown(address), why, "one address a host")


def _of_a_list(problem: Problem, row: dict[str, str]) -> Problem:
    """Return a problem of a line; what a cluster file has keys for is an option here."""
    keys = login_of(row.get("address", ""))
    given = [key for key in ("user", "port") if key in keys]
    if problem.path != ("address",) or not given:
        return problem
    why = f"a list has no {' and no '.join(given)}"
    options = " ".join(f"--{key} {keys[key]}" for key in given)
    then = f"write {keys['address']}, and give {options} for all lines"
    return problem._replace(why=why, then=then)


def _other_separator(written: str, columns: int) -> str:
    """Say what else is between the columns of a line, as spreadsheets write it."""
    for mark, word in ((";", ";"), ("\t", "a tab")):
        if columns == 1 and mark in written:
            return f"; separate columns by a comma, not {word}"
    return ""
