"""Ctrl-C during work in other greenlets: the work is abandoned, and the caller cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import gevent
import pytest
from gevent.pool import Pool

from gpu_node.verify.run import stopped_by_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_work_that_is_stopped(number: signal.Signals) -> None:
    """It is left where it waits, wherever the signal comes; handlers are as before."""
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), stopped_by_signals():
        gevent.spawn_later(0.1, os.kill, os.getpid(), number)
        Pool(2).map(lambda _: gevent.sleep(30), range(2))
    assert signal.getsignal(number) == before


def test_the_second_time_is_the_last() -> None:
    """Clearing up may hang as well."""
    code = (
        "import contextlib, os, signal, gevent\n"
        "from gpu_node.verify.run import stopped_by_signals\n"
        "with stopped_by_signals():\n"
        "    for each in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        with contextlib.suppress(KeyboardInterrupt): gevent.sleep(0.5)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, "interrupted again" in done.stderr) == (1, True)
