"""Every contender by name: how it is started, and for how many nodes it is worth its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.contenders import bare, ours, playbooks
from bench.contenders.setup import Setup
from bench.measure.run import Command

DRIFT, OPENSSH, PYINFRA, ANSIBLE, MITOGEN = "drift", "openssh", "pyinfra", "ansible", "mitogen"

FEW_NODES = 10


@dataclass(frozen=True)
class Contender:
    """A tool: `title` is for a reader, `most` is the most nodes that it is measured with.

    `shells`: its nodes run commands. `few` and `many` are how often it runs: with up to `FEW_NODES`
    nodes, and with more.
    """

    title: str
    start: Callable[[Setup], Command]
    most: int = 500
    shells: bool = False
    few: int = 5
    many: int = 3

    def rounds(self, nodes: int) -> int:
        """Return how often it runs with so many nodes."""
        return self.few if nodes <= FEW_NODES else self.many


CONTENDERS = {
    DRIFT: Contender("gpu-node drift", ours.drift),
    OPENSSH: Contender("OpenSSH, the same script", bare.openssh),
    PYINFRA: Contender("pyinfra, one fact", bare.pyinfra),
    MITOGEN: Contender("mitogen, 20 checks", playbooks.mitogen, 50, True, 3, 1),
    ANSIBLE: Contender("Ansible, 20 checks", playbooks.ansible, 50, True, 3, 1),
}
