"""Shows the lab's current step on stderr: a spinner on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def step(what: str) -> Iterator[None]:
    """Show `what` while the body runs, then that it is done and how long it took."""
    # Imported here: `lab status` shows no step.
    from rich.console import Console

    started = time.monotonic()
    console = Console(stderr=True, highlight=False)
    # Two spinners at once would write over each other.
    if console.is_terminal and threading.current_thread() is threading.main_thread():
        with console.status(what):
            yield
    else:
        print(f"lab: {what} ...", file=sys.stderr, flush=True)
        yield
    taken = time.monotonic() - started
    print(f"lab: {what}: done, {taken:.1f} s", file=sys.stderr, flush=True)
