"""The rule about sudo: the SSH user becomes root by it where the inventory says so."""

from __future__ import annotations

from collections.abc import Iterator

from drift.rules.rule import Fault, rule
from drift.sudo import ssh_user
from facts.node import NodeState
from facts.sudo import why_refused
from inventories.schema import NodeWanted


@rule("ssh.sudo-refused", "error", whole=True)
def sudo_refused(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The inventory says that the SSH user may use sudo, and the node's sudo refuses."""
    if found.ssh.sudo_refusal is None:
        return
    refused = why_refused(found.ssh.sudo_refusal, ssh_user(found))
    yield Fault(
        subject="sudo",
        found=refused.words,
        wanted="sudo -n without a password and without a terminal",
        cause=f"{refused.reason}: what only root can read is unknown, and no repair can be made",
        fix=refused.fix,
        fixable=False,
        # A deploy from a terminal asks for the password.
        severity="warning" if refused.asks_password else None,
    )
