"""What the tests of the probe share: each shell that may run it."""

from __future__ import annotations

import pytest

from tests.shells import SHELLS


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Each kind of sh that a node may have, and bash as itself."""
    return str(request.param)
