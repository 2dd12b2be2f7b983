"""If the lab does not start, the lane ends: each test would fail for the same reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpu_node.lab.errors import LabError


@contextmanager
def end_the_lane() -> Iterator[None]:
    """Turn a LabError into the end of the session, with its text as the one line."""
    try:
        yield
    except LabError as error:
        pytest.exit(str(error), returncode=1)
