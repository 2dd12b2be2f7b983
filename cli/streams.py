"""Standard output of any encoding: a character that it cannot take never ends a command."""

from __future__ import annotations

import codecs
import io
import os
import sys
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


def _instead(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unfit = error.object[error.start : error.end].replace(WRONG, _PLAIN_WRONG)
    return unfit.encode("ascii", "backslashreplace").decode("ascii"), error.end
