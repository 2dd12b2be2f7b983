"""How many examples hypothesis tries: a tenth in the quick lane, all of them in the lane `fuzz`."""

from __future__ import annotations

import os

ALL = "GPU_NODE_TESTS_ALL_EXAMPLES"


def examples(number: int) -> int:
    """Return how many examples a test tries that has `number` of them."""
    return number if os.environ.get(ALL) else number // 10
