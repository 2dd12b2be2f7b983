"""What the tests of the probe share: each shell that may run it, and a home of a user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shells import SHELLS


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Each kind of sh that a node may have, and bash as itself."""
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a user that only `getent` knows."""
    (tmp_path / "bin").mkdir()
    home = tmp_path / "home of train"
    home.mkdir()
    getent = tmp_path / "bin" / "getent"
    getent.write_text(f"#!/bin/sh\necho 'train:x:1:1::{home}:/bin/bash'\n")
    # No process can become a user whom only `getent` knows.
    become = tmp_path / "bin" / "su"
    become.write_text(
        '#!/bin/sh\n[ "$1 $2 $3 $4" = "-s /bin/sh train -c" ] && exec /bin/sh -c "$5"\n'
    )
    for each in (getent, become):
        each.chmod(0o755)
    return home
