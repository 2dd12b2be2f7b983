"""No pattern of a cause takes long on a line, or on the lines near it, whatever a log has there."""

from __future__ import annotations

import re

import pytest

from gpu_node.diagnose.cause import Cause, causes
from gpu_node.diagnose.scan import KEPT, NEAR
from tests.patterns import texts
from tests.test_linear import limited

# Most take less than 0.01 s for the longest line; what grows with its cube takes seconds. The lines
# that are near are looked at together.
MOST_SECONDS, MOST_SECONDS_NEAR = 0.3, 1.5


@pytest.mark.parametrize("cause", causes().values(), ids=causes())
def test_a_pattern_takes_little_time(cause: Cause) -> None:
    """On lines that are made of its own beginnings and repetitions."""
    for pattern in cause.patterns:
        for expression, lines, most in (
            (pattern.line, 1, MOST_SECONDS),
            *(
                (each, 2 * NEAR + 1, MOST_SECONDS_NEAR)
                for each in (*pattern.near, *pattern.without)
            ),
        ):
            for each in texts(expression, re.MULTILINE):
                text = "\n".join([each(KEPT)] * lines)
                with limited(most):
                    re.search(expression, text, re.MULTILINE)
