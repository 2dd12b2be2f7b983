"""The logins of 50 nodes, real ones on loopback: as quick as plain OpenSSH, and all readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import logins

# The measured ratio is near 1; the machine does other work as well.
AT_MOST = 1.5


@pytest.mark.slow
def test_the_mesh_of_50_nodes(tmp_path: Path) -> None:
    """6 logins by each node, 50 by the first: all of them work, as quickly as plain ones."""
    found = logins.compare(tmp_path)
    assert (found.nodes, found.count) == (50, 50 + 49 * 6)
    print(f"\nmesh {found.mesh:.2f} s, plain {found.plain:.2f} s: {found.ratio:.2f} times")
    assert found.ratio <= AT_MOST, found
