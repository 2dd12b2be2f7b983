"""Imports what talks to nodes, once a command line is understood: sockets are cooperative first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from cli.interrupt import ending_early


@contextmanager
def loading() -> Iterator[None]:
    """Make the imports of a command within, in its body: a help text or a mistake needs none.

    Whatever imports socket or ssl belongs here: pyinfra, paramiko, and the rooms that use them.
    """
    with ending_early():
        cooperate()
        yield


@cache
def cooperate() -> None:
    """Let gevent take sockets, threads and processes over, as pyinfra's own command does."""
    import logging

    from gevent import hub, monkey

    monkey.patch_all()
    # Ctrl-C is not an error of a greenlet, and the report repeats what paramiko logs.
    hub.Hub.NOT_ERROR += (KeyboardInterrupt,)
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
