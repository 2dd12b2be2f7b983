"""Runs pyinfra as a child process; defers Ctrl-C until pyinfra can exit cleanly.

    python -m gpu_node.deploy.engine.pyinfra_child PARENT ENDED ARGUMENTS...

The child ends when the process PARENT ends. Its stdin has, as JSON, the password for sudo and what
the nodes have answered. It writes how the run ended to the open file ENDED, by its number, as JSON:
the fields of `Ended` but the code. The parent starts it with the signals of HELD_BACK blocked:
during the imports of Python and pyinfra they would print tracebacks.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from gpu_node.inventories.interrupt import stop_silently

# While Python starts, SIGINT becomes a traceback, and the other signals end it at once.
_LATER = {signal.SIGINT}
_AT_ONCE = {signal.SIGTERM, signal.SIGHUP}
HELD_BACK = _LATER | _AT_ONCE
# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run pyinfra with the arguments that follow the first two."""
    parent, ended, *arguments = sys.argv[1:]
    _end_with(int(parent))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AT_ONCE)
    # Imported only here: it takes a second.
    from pyinfra_cli.cli import cli
    from pyinfra_cli.main import main as pyinfra

    from gpu_node.deploy.engine.run import Run
    from gpu_node.inventories.connection.sudo import SUDO
    from gpu_node.inventories.pyinfra_patches import reword
    from gpu_node.inventories.terminal import show_error

    password, Run.from_parent = json.load(sys.stdin)
    SUDO.from_parent(*password)
    sys.excepthook = show_error
    reword()
    if cli.callback is not None:
        cli.callback = _interruptible(cli.callback, int(ended))
    sys.argv = ["pyinfra", *arguments]
    pyinfra()


def _end_with(parent: int) -> None:
    """Receive SIGTERM when the parent ends, for whatever reason; only Linux can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent ended before prctl
            os.kill(os.getpid(), signal.SIGTERM)


def _interruptible(work: Callable[..., Any], ended: int) -> Callable[..., Any]:
    """Wrap pyinfra's work, which starts after pyinfra has set its own handler of Ctrl-C."""

    @wraps(work)
    def interruptible(*given: Any, **named: Any) -> Any:
        from gpu_node.deploy.files.replace import run

        _write(ended, {"run": run()})  # Ctrl-C ends this process at once
        signal.signal(signal.SIGINT, stop_silently)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _LATER)
        try:
            return work(*given, **named)
        finally:
            # The end of the interpreter would print a traceback as well.
            signal.pthread_sigmask(signal.SIG_BLOCK, _LATER)
            _write(ended, _ended())

    return interruptible


def _write(ended: int, what: Mapping[str, Any]) -> None:
    """Write to the open file in place of what is there."""
    os.ftruncate(ended, 0)
    os.pwrite(ended, json.dumps(what).encode(), 0)


def _ended() -> dict[str, Any]:
    """Return how the run ended, with the names of nodes in the inventory's order."""
    from pyinfra.context import ctx_state

    from gpu_node.deploy.engine.baseline import handed
    from gpu_node.deploy.engine.planning import shown_plan, wanted_of
    from gpu_node.deploy.engine.run import node_of
    from gpu_node.deploy.files.replace import run

    if not ctx_state.isset() or not ctx_state.get().initialised:
        return {}
    state = ctx_state.get()
    return {
        "failed": [host.name for host in state.inventory if host in state.failed_hosts],
        "recorded": [host.name for host in state.inventory if node_of(host).is_recorded],
        "run": run(),
        "planned": [*shown_plan(state)] if "--dry" in sys.argv else [],
        "proved": {
            host.name: handed(wanted_of(host), proved)
            for host in state.inventory
            if (proved := node_of(host).proved_by) is not None
        },
    }


if __name__ == "__main__":
    main()
