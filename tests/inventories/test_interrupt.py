"""Ctrl-C during a deferred section is raised at its end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from gpu_node.inventories.interrupt import deferred


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Install Python's own handler; it must be in place again after the test."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def test_a_deferred_signal_is_raised_afterwards() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("written")
    assert done == ["written"]


def test_without_a_signal_nothing_is_raised() -> None:
    with deferred():
        pass
