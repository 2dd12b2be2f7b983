"""The logins of 24 nodes, real ones on loopback: as quick as plain OpenSSH, and all readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import logins

# The measured ratio is near 1; the machine does other work as well.
AT_MOST = 1.5
# More than those of a full mesh; `make bench` measures 50.
NODES = 24


@pytest.mark.slow
def test_the_mesh_of_many_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 logins by each node, 24 by the first: all of them work, as quickly as plain ones."""
    monkeypatch.setattr(logins, "NODES", NODES)
    found = logins.compare(tmp_path)
    assert (found.nodes, found.count) == (NODES, NODES + (NODES - 1) * 5)
    print(f"\nmesh {found.mesh:.2f} s, plain {found.plain:.2f} s: {found.ratio:.2f} times")
    assert found.ratio <= AT_MOST, found
