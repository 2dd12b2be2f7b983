"""pyinfra's fact that carries the probe's script: as one command, as facts do."""

from __future__ import annotations

import base64
import gzip
import shlex
from pathlib import Path

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError
from typing_extensions import override

_LONGEST = 128 * 1024
# The last line of an answer.
DONE = "@@gpu-node done"


def _command() -> str:
    text = (Path.cwd() / "script.sh").read_text()
    if len(shlex.quote(shlex.quote(text))) < _LONGEST:
        return text
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'eval "$(echo {packed} | base64 -d | gzip -d)"'


COMMAND = _command()


class Probe(FactBase[int]):
    """Returns how many lines the node prints; an answer that is not whole is an error."""

    @override
    def command(self) -> str:
        return COMMAND

    @override
    def process(self, output: list[str]) -> int:
        if DONE not in output:
            raise FactProcessError("the answer is not whole")
        return len(output)
