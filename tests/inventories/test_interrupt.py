"""Ctrl-C in the middle of what must not be half done comes when it is done."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from onboarding.signals import undisturbed


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Python's own handler, whatever was there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def test_it_comes_afterwards() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), undisturbed():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("written")
    assert done == ["written"]


def test_nothing_comes_where_nothing_came() -> None:
    with undisturbed():
        pass
