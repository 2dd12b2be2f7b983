"""What pyinfra prints of a node: its own colours reach the terminal, all other controls are shown.

pyinfra puts a node's output and its own styles into one text. Styles that it makes carry a secret
here, which distinguishes them from styles that a node sends.
"""

from __future__ import annotations

import logging
import re
import secrets
import sys
import traceback
from types import TracebackType
from typing import Any

import click
from typing_extensions import override

from gpu_node.inventories.escape import visible, visible_lines

# Parameters that no terminal knows, so that a style that is printed past the filter does no harm.
# No style has numbers of four digits: one that carries them is not taken for one without.
_SECRET = f"{1000 + secrets.randbelow(9000)};{1000 + secrets.randbelow(9000)};"
_STYLE = re.compile(r"(\x1b\[)((?:\d{1,3};)*\d{1,3}m)")
_OURS = re.compile(rf"(\x1b\[){_SECRET}((?:\d{{1,3}};)*\d{{1,3}}m)")
# How pyinfra_cli begins a line about an error: what failed where.
_HEAD = re.compile(r"--> (?:\x1b\[\d{1,3}m)+[^\x1b\n]*\x1b\[0m")
# In front of all lines but the first of one message: they cannot look like another message.
_NEXT_LINE = "      | "
_TAB = 8


class Errors:
    """A stream to stderr whose text is made visible."""

    def write(self, text: str) -> None:
        """Print a text."""
        sys.stderr.write(visible_lines(text))

    def flush(self) -> None:
        """Print what is held back."""
        sys.stderr.flush()


def show_error(
    kind: type[BaseException], error: BaseException, where: TracebackType | None
) -> None:
    """Print an error that ends the process as Python does, made visible: a sys.excepthook.

    Only our own programs set it; pyinfra's command prints its errors itself.
    """
    lines = "".join(traceback.format_exception(kind, error, where))
    print(visible_lines(lines), file=sys.stderr, end="", flush=True)


class Visible(logging.Filter):
    """Makes the text of each record visible."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str):
            message = record.getMessage()
            at = _trusted(message, record.pathname)
            record.msg, record.args = in_lines(_marked(message[:at]) + message[at:]), ()
        return True


def _trusted(message: str, path: str) -> int:
    """Return up to where pyinfra_cli, which styles its words itself, has made a message."""
    if "pyinfra_cli" not in path:
        return 0
    if not path.endswith("exceptions.py"):  # of those the rest may quote a node
        return len(message)
    head = _HEAD.match(message)
    return head.end() if head else 0


def _marked(text: str) -> str:
    return _STYLE.sub(rf"\g<1>{_SECRET}\g<2>", text)


def in_lines(message: str) -> str:
    """Return a message made visible, with pyinfra's styles and a mark on its further lines."""
    body = message.strip("\n")
    if not body:
        return message
    before, _, after = message.partition(body)
    lines = [line.removesuffix("\r").expandtabs(_TAB) for line in body.split("\n")]
    return before + f"\n{_NEXT_LINE}".join(map(_styled, lines)) + after


def _styled(line: str) -> str:
    """Return a line made visible between pyinfra's own styles."""
    parts = _OURS.split(line)  # text, then "\x1b[", the style and text again and again
    for at in range(0, len(parts), 3):
        parts[at] = visible(parts[at])
    return "".join(parts)


def style(text: str, *given: Any, **named: Any) -> str:
    """Style as click does; the styles carry the secret."""
    before, _, after = click.style("\0", *given, **named).partition("\0")
    return f"{_marked(before)}{text}{_marked(after)}"


def echo(message: Any = None, **named: Any) -> None:
    """Print as click does, made visible."""
    click.echo(in_lines(message) if isinstance(message, str) else message, **named)
