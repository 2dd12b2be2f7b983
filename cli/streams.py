"""The standard streams: closed or full, of any encoding, of a terminal without a width."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from contextlib import suppress
from typing import TextIO

from gpu_node.drift.report.signs import WRONG
from gpu_node.inventories.errors import worded

_HANDLER = "gpu-node"
# The sign beside what is wrong has a stand-in of its own width.
_PLAIN_WRONG = "x"


def open_closed() -> str:
    """Open /dev/null in place of a closed stdin or stderr; return the problem of a closed stdout.

    Without it, the next file or connection that is opened would become that stream.
    """
    is_closed = [stream is None for stream in (sys.stdin, sys.stdout, sys.stderr)]
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    if is_closed[0]:
        sys.stdin = io.TextIOWrapper(io.BytesIO())
    if is_closed[2]:
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), encoding="utf-8")
    if not is_closed[1]:
        return ""
    return worded("a closed stdout", "", "an open one", "write to /dev/null or to a file")


def take_every_character(stream: TextIO) -> None:
    r"""Let `stream` write what it cannot encode as text: x for the sign, \xe9 for the rest."""
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error(_HANDLER, _instead)
        stream.reconfigure(errors=_HANDLER)


def ignore_no_width() -> None:
    """Forget a COLUMNS or LINES of 0, as some terminals export it: rich would take it as a size."""
    for name in ("COLUMNS", "LINES"):
        if re.fullmatch("0+", os.environ.get(name, "")):
            del os.environ[name]


def print_error(text: str) -> None:
    """Print to stderr; the exit code alone remains where that takes no more."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def discard_unwritten() -> None:
    """Have what a full stdout or stderr did not take go to /dev/null.

    Python flushes both once more when it ends: it would print two more lines, and exit 120.
    """
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number)
            os.close(null)


def _instead(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unfit = error.object[error.start : error.end].replace(WRONG, _PLAIN_WRONG)
    return unfit.encode("ascii", "backslashreplace").decode("ascii"), error.end
