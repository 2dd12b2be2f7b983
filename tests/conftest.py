"""What ends every session of the tests, whichever lane it is."""

from __future__ import annotations

import os
import sys

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Give os.close back, before pytest removes the folders of earlier sessions.

    gevent's own (25.8.1 and later) closes what is no regular file at the hub's next turn. The
    removal of a tree gives it none, and so would keep one descriptor a folder.
    """
    if monkey := sys.modules.get("gevent.monkey"):
        os.close = monkey.get_original("os", "close")
