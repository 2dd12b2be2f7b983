"""The arguments and the output of pyinfra's commands: what is sent, kept and printed of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyinfra.api import output as pyinfra_output
from pyinfra.connectors.util import CommandOutput, OutputLine
from typing_extensions import override

from gpu_node.inventories.connection.capped import Answer
from gpu_node.inventories.errors import worded

# What is printed of an answer: its first lines as they come, and its last ones.
_FIRST, _LAST = 60, 40


def password_shown(arguments: Mapping[str, Any]) -> str:
    """Return what is wrong with a password in connector arguments, or in a host's data; else "".

    pyinfra writes it into the command line that it sends, and an askpass file prints it from there.
    """
    for key in ("_sudo_password", "_su_password"):
        if arguments.get(key):
            why = "all users of the node could read it in the list of its processes"
            then = "--ask-sudo-password of gpu-node, or NOPASSWD in the node's sudoers"
            return worded(key, why, "no password in the inventory", then)
    return ""


class Output(CommandOutput):
    """The lines of an answer; one object for each line would take ten times its bytes."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @property
    @override
    def combined_lines(self) -> list[OutputLine]:  # type: ignore[override]
        """The lines to print, in the order in which their ends came; pyinfra prints all of them."""
        ends = _Ends()
        shown = [each for part in self._answer.parts for each in ends.take(*part)]
        return [OutputLine(stream, line) for stream, line in (*shown, *ends.rest())]

    @property
    @override
    def stdout_lines(self) -> list[str]:
        return _lines(self._answer.of("stdout"))

    @property
    @override
    def stderr_lines(self) -> list[str]:
        return _lines(self._answer.of("stderr"))


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace").removesuffix("\n")
    return text.split("\n") if data else []


class _Ends:
    """The first lines of an answer as they end, then its last ones, and how many are between.

    A node may send a million lines, which would hide what the other nodes print.
    """

    def __init__(self) -> None:
        # The parts of each stream's line that has not ended.
        self._begun: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self._count = 0
        self._last: deque[tuple[str, str]] = deque(maxlen=_LAST)

    def take(self, stream: str, data: bytes) -> Iterator[tuple[str, str]]:
        """Yield the first lines as they end in a part."""
        first, *others = data.split(b"\n")
        self._begun[stream].append(first)
        for begun in others:
            yield from self._ended(stream)
            self._begun[stream] = [begun]

    def _ended(self, stream: str) -> Iterator[tuple[str, str]]:
        line = b"".join(self._begun[stream]).decode("utf-8", "replace")
        self._count += 1
        if self._count <= _FIRST:
            yield stream, line
        else:
            self._last.append((stream, line))

    def rest(self) -> Iterator[tuple[str, str]]:
        """Yield what has no end of line, and the last lines after the number of those left out."""
        for stream, parts in self._begun.items():
            if any(parts):
                yield from self._ended(stream)
        if more := max(self._count - _FIRST - len(self._last), 0):
            yield "stdout", f"... ({more} more lines)"
        yield from self._last


class Shown:
    """Prints the lines of an answer as they end."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._ends = _Ends()

    def take(self, stream: str, data: bytes) -> None:
        """Print the first lines as they end in a part."""
        self._print(self._ends.take(stream, data))

    def end(self) -> None:
        """Print what has no end of line, and the last lines of many."""
        self._print(self._ends.rest())

    def _print(self, lines: Iterable[tuple[str, str]]) -> None:
        for stream, line in lines:
            shown = pyinfra_output.format_text(line, "red") if stream == "stderr" else line
            pyinfra_output.echo(f"{self._prefix}{shown}", err=True)


def stdin_bytes(stdin: Any) -> bytes:
    """Return what pyinfra writes of its `_stdin`: a line, lines or a file, each with its end."""
    if not stdin:
        return b""
    lines = stdin.readlines() if hasattr(stdin, "readlines") else stdin
    lines = lines if isinstance(lines, list | tuple) else [lines]
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).encode()
