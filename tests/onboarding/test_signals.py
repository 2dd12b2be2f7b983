"""Ctrl-C in the middle of what must not be half done comes when it is done."""

from __future__ import annotations

import os
import signal

import pytest

from onboarding.signals import undisturbed


def test_it_comes_afterwards() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), undisturbed():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("written")
    assert done == ["written"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nothing_comes_where_nothing_came() -> None:
    with undisturbed():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
