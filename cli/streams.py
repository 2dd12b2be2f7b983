"""Standard output of any encoding: a character that it cannot take never ends a command."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

from gpu_node.drift.report.signs import WRONG

_HANDLER = "gpu-node"
# The sign beside what is wrong has a stand-in of its own width.
_PLAIN_WRONG = "x"


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
