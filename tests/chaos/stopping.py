"""Runs pyinfra, which is killed at the end of its Nth operation.

python -m tests.chaos.stopping N ARGUMENT...
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pyinfra.api import State
from pyinfra_cli.main import main

_trigger = State.trigger_callbacks


def stop_after(number: int) -> None:
    """Kill this process as soon as so many operations have ended, on all hosts."""
    left = number

    def counted(self: State, method_name: str, *args: Any, **kwargs: Any) -> None:
        nonlocal left
        _trigger(self, method_name, *args, **kwargs)
        left -= method_name == "operation_end"
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    State.trigger_callbacks = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    stop_after(int(sys.argv.pop(1)))
    sys.exit(main())
