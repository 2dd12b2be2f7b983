"""Logins between nodes count only if each of them works, and each node's answer is readable."""

from __future__ import annotations

import pytest

from bench.logins import require_all
from bench.measure.run import Failed
from bench.nodes.cluster import nodes
from bench.nodes.login_script import SECTION, login_scripts
from bench.nodes.probed import framed

pytestmark = pytest.mark.slow


def answer(*lines: str, code: int = 0) -> str:
    """A node's answer."""
    return framed({SECTION: (code, "raw", "\n".join(lines))})


def test_each_login_works() -> None:
    """The line about the nodes that are not tried is no login."""
    printed = {
        "node-001": answer("pair node-002 name 0 ", "pair node-001 name 0"),
        "node-002": answer("untried 1", "pair node-001 name 0 "),
    }
    require_all(printed, 3)
    with pytest.raises(Failed, match="3 logins of 4 have a result"):
        require_all(printed, 4)


@pytest.mark.parametrize(
    "printed",
    [
        "",
        answer("pair node-002 name 255 Permission denied"),
        answer("pair node-002 name -"),
        answer("pair node-002 name 0", code=137),
    ],
    ids=["nothing", "refused", "no time left", "killed"],
)
def test_a_login_that_does_not_work_fails(printed: str) -> None:
    """The error names the node."""
    with pytest.raises(Failed, match="the logins of node-001"):
        require_all({"node-001": printed}, 1)


def test_the_first_node_logs_in_to_all() -> None:
    """Each other one to some: as a report of a large cluster does."""
    scripts = login_scripts(nodes(50), 22)
    assert [len(each.names) for each in scripts.values()] == [50, *[6] * 49]
    assert all(SECTION in each.sh and "ssh -v -n" in each.sh for each in scripts.values())
