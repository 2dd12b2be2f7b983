"""What a report's options say: the file it is written to, and the words that choose from it."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterable
from pathlib import Path

import click

from gpu_node.drift.report.formats import SUFFIXES, format_of
from gpu_node.inventories import writers
from gpu_node.inventories.atomic_write import check_folder, real_path, replace
from gpu_node.inventories.errors import did_you_mean, quoted, reason, shown, worded

_LONGEST_NAME = 255
_IN_A_FOLDER = "a file in a folder that exists"
_IN_A_WRITABLE = "a file in a folder that takes new files"


def check_given(output: str | None, only: Iterable[str]) -> None:
    """Refuse an output that cannot be written, and an empty word, before any node is asked."""
    if "" in only:
        raise unknown_word("", ())
    if output is None:
        return
    if not output:
        raise click.UsageError(f"--output: {worded('nothing', '', 'a file')}")
    try:
        _check_target(_target(output))
    except OSError as error:
        raise unwritable(output, error) from None


def chosen_format(output: str | None) -> str:
    """Return the format that the suffix of a file chooses; one of no format is refused."""
    if (form := format_of(output)) is None:
        why, allowed = "no format has this suffix", ", ".join(SUFFIXES)
        problem = worded(shown(output or ""), why, allowed, "--format FORMAT takes any name")
        raise click.UsageError(f"--output: {problem}")
    return form


def check_not_read(output: str, files: Iterable[str]) -> None:
    """Refuse an output that would replace one of the files that the report is read from."""
    if not os.path.isfile(output):
        return
    for each in files:
        if os.path.isfile(each) and os.path.samefile(output, each):
            why = "the inventory is read from it, or names it"
            raise click.UsageError(f"--output: {worded(shown(output), why, 'another file')}")


def unknown_word(word: str, known: Iterable[str]) -> click.UsageError:
    """Return the error for a word of --only that is not `known`."""
    why = f"an unknown word{did_you_mean(word, known)}"
    allowed = "a rule, an area or a node of the report"
    return click.UsageError(f"--only: {worded(shown(word), why, allowed, 'gpu-node rules')}")


def save(parts: Iterable[str], output: str, for_all: bool = False) -> None:
    """Write a report; a plain file is replaced as a whole, so that no reader sees half of one.

    A new file is for its owner alone, as a report has what root reads on the nodes; or `for_all`.
    """
    try:
        target = _target(output)
        if target.is_file() or not target.exists():
            mode = 0o644 if for_all else 0o600
            replace(target, (part.encode() for part in parts), mode)
        else:  # a pipe or a device is written into; a folder is an error
            with target.open("w", encoding="utf-8") as opened:
                opened.writelines(parts)
    except OSError as error:
        raise unwritable(output, error) from None


def _target(output: str) -> Path:
    writers.check_way(Path(output))
    return real_path(Path(output))


def _check_target(target: Path) -> None:
    """Raise OSError for a folder, and where a file cannot be put in place or written into."""
    if target.is_dir():
        raise _error(errno.EISDIR)
    is_replaced = target.is_file() or not target.exists()
    if is_replaced:
        os.stat(f"{target.parent}/.")  # why there is no such folder
        check_folder(target.parent)
    elif not os.access(target, os.W_OK):
        raise _error(errno.EACCES)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def unwritable(output: str, error: OSError) -> click.ClickException:
    """Return the error for a file that cannot be written: its name, the reason, another place."""
    name = output if len(output) <= _LONGEST_NAME else quoted(output)
    found, allowed, then = reason(error), "a file", ""
    folder, own = os.path.split(output)
    if error.errno == errno.ENOENT and folder and not os.path.lexists(folder):
        found, allowed = f"no such folder: {folder}", _IN_A_FOLDER
        then = f"mkdir -p {shlex.quote(folder)}"
    elif error.errno == errno.EISDIR:
        then = f"-o {shlex.quote(os.path.join(output, 'report.html'))}"
    elif error.errno in (errno.ENOENT, errno.EACCES, errno.EROFS, errno.ENOTDIR):
        allowed = _IN_A_FOLDER if error.errno == errno.ENOTDIR else _IN_A_WRITABLE
        then = f"-o {shlex.quote(own)}, which is a file of this folder" if folder else ""
    problem = worded(found, f"cannot write {name}", allowed, then)
    return click.ClickException(f"--output: {problem}")
