"""pyinfra as a child of a command of ours: Ctrl-C is heeded once pyinfra is there, and unheard.

    python -m deploy.child PARENT FAILED ARGUMENTS...

PARENT is the process that it ends with, FAILED a file for the names of the nodes that failed. It is
started with Ctrl-C and its like held back: while Python and pyinfra are imported one would end in
tracebacks.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

# What a starting Python turns into tracebacks; the rest ends it at once.
_LATER = {signal.SIGINT}
_AT_ONCE = {signal.SIGTERM, signal.SIGHUP}
HELD_BACK = _LATER | _AT_ONCE
# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run pyinfra with the arguments that follow the first two."""
    parent, failed, *arguments = sys.argv[1:]
    _end_with(int(parent))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AT_ONCE)
    # Only now: it takes a second.
    from pyinfra_cli.cli import cli
    from pyinfra_cli.main import main as pyinfra

    if cli.callback is not None:
        cli.callback = _heeding(cli.callback, Path(failed))
    sys.argv = ["pyinfra", *arguments]
    pyinfra()


def _end_with(parent: int) -> None:
    """Be ended, as by SIGTERM, when the parent ends however it does; only Linux can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it had ended before
            os.kill(os.getpid(), signal.SIGTERM)


def _heeding(work: Callable[..., Any], failed: Path) -> Callable[..., Any]:
    """Give pyinfra's work, which begins where its own handler is in place: ours takes over."""
    from deploy.interruption import end_unheard

    @wraps(work)
    def heeded(*given: Any, **named: Any) -> Any:
        signal.signal(signal.SIGINT, end_unheard)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _LATER)
        try:
            return work(*given, **named)
        finally:
            # An interpreter that ends has tracebacks for it as well.
            signal.pthread_sigmask(signal.SIG_BLOCK, _LATER)
            failed.write_text("\n".join(_failed()))

    return heeded


def _failed() -> list[str]:
    """Return the names of the nodes that failed, in the inventory's order."""
    from pyinfra.context import ctx_state

    if not ctx_state.isset():
        return []
    state = ctx_state.get()
    return [host.name for host in state.inventory or () if host in state.failed_hosts]


if __name__ == "__main__":
    main()
