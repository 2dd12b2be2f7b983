"""Which findings a run repairs and fails by, where only some areas or nodes are its part."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_node.deploy.engine.scope import Part
from gpu_node.drift.engine.finding import Finding, Root


def finding(rule: str, root: str = "") -> Finding:
    """A finding; `root` is the node that has its cause."""
    cause = Root(node=root, rule="ssh.not-authorised", subject="it") if root else None
    words: dict[str, Any] = dict.fromkeys(
        ("subject", "found", "wanted", "cause", "fix", "step"), "x"
    )
    return Finding(rule=rule, severity="error", fixable=False, root=cause, **words)


LOGIN = finding("ssh.no-login", "v100-01")
LOGIN_OF_ITS_OWN = finding("ssh.no-login", "a100-01")
SIZE = finding("shm.too-small")
ALL = [LOGIN, LOGIN_OF_ITS_OWN, SIZE]


@pytest.mark.parametrize(
    ("part", "of", "waiting"),
    [
        (Part(), ALL, []),
        (Part(areas=("shm",)), [SIZE], []),
        (Part(nodes=("a100-01", "v100-01")), ALL, []),
        (Part(nodes=("a100-01",)), [LOGIN_OF_ITS_OWN, SIZE], [LOGIN]),
        (Part(areas=("shm",), nodes=("a100-01",)), [SIZE], []),
        (Part(nodes=("v100-01",)), [], []),
    ],
)
def test_of_a_node(part: Part, of: list[Finding], waiting: list[Finding]) -> None:
    """A login that another node refuses waits until that one is a part of a run."""
    assert list(part.of("a100-01", ALL)) == of
    assert list(part.waiting("a100-01", ALL)) == waiting
