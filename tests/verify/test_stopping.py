"""Ctrl-C during work in another greenlet: the work is abandoned, and the caller cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import gevent
import pytest

from gpu_node.inventories.interrupt import Interrupted
from gpu_node.verify.stopping import stop_requests, until


def test_work_that_ends() -> None:
    """Its result, or its error, is handed on; handlers are as before."""
    before = signal.getsignal(signal.SIGINT)
    with stop_requests() as stopped:
        assert until(stopped, lambda: 5) == 5
        with pytest.raises(ValueError, match="no"):
            until(stopped, lambda: int("no"))
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_work_that_is_stopped(number: signal.Signals) -> None:
    """It is left where it waits."""
    with stop_requests() as stopped:
        gevent.spawn_later(0.1, os.kill, os.getpid(), number)
        with pytest.raises(Interrupted):
            until(stopped, lambda: gevent.sleep(30))


def test_the_second_time_is_the_last() -> None:
    """Clearing up may hang as well."""
    code = (
        "import os, signal, gevent\n"
        "from gpu_node.verify.stopping import stop_requests\n"
        "with stop_requests() as stopped:\n"
        "    for each in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGINT); gevent.sleep(0.5)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, "interrupted again" in done.stderr) == (1, True)
