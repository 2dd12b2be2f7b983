"""Imports what talks to nodes, once a command line is understood: sockets are cooperative first."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from gpu_node.inventories.interrupt import during_imports

_LOOK_SECONDS = 0.5


@contextmanager
def loading() -> Iterator[None]:
    """Make the imports of a command within, in its body: a help text or a mistake needs none.

    Whatever imports socket or ssl belongs here: pyinfra, paramiko, and the rooms that use them.
    """
    with during_imports():
        cooperate()
        _import_paramiko()
        _set_up()
        yield
    gc.freeze()  # none of it is ever garbage


def _import_paramiko() -> None:
    """Import paramiko without invoke, a tenth of all imports: ssh_config.py has what it is for."""
    if "paramiko" in sys.modules or "invoke" in sys.modules:
        return
    sys.modules["invoke"] = None  # type: ignore[assignment]
    try:
        import_module("paramiko")
    finally:
        del sys.modules["invoke"]


def _set_up() -> None:
    """Have all that is printed of a node made visible, also by Python itself."""
    from gpu_node.inventories import pyinfra_patches
    from gpu_node.inventories.terminal import show_error

    pyinfra_patches.install()
    sys.excepthook = show_error


@cache
def cooperate() -> None:
    """Let gevent take sockets, threads and processes over, as pyinfra's own command does."""
    import logging

    from gevent import hub, monkey

    monkey.patch_all()
    # Ctrl-C is not an error of a greenlet, and the report repeats what the libraries log.
    hub.Hub.NOT_ERROR += (KeyboardInterrupt,)
    # A signal in the moment between the loop's look for one and its sleep does not interrupt that.
    loop = hub.get_hub().loop
    loop.timer(_LOOK_SECONDS, _LOOK_SECONDS, ref=False).start(bool)
    for name in ("paramiko", "pyinfra"):
        logging.getLogger(name).addHandler(logging.NullHandler())
