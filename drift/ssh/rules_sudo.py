"""The rule about sudo: the SSH user becomes root by it where the inventory says so."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import RootOnly
from gpu_node.drift.ssh.sudo import ssh_user
from gpu_node.facts.ask.sudo import why_refused
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


@rule(
    "ssh.sudo-refused",
    "error",
    whole=True,
    always=True,
    why="facts that only root can read are unknown, and no repair is possible",
    manual="allow the SSH user to run sudo without a terminal, and without a password or with "
    "--ask-sudo-password",
    alone="If sudo asks for your password, run gpu-node with --ask-sudo-password. Otherwise repair "
    "the problems that need no root.",
    explains_unread=(RootOnly,),
)
def sudo_refused(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The inventory says that the SSH user may use sudo, and the node's sudo refuses."""
    if state.ssh.sudo_refusal is None:
        return
    refused = why_refused(state.ssh.sudo_refusal, ssh_user(state))
    yield Fault(
        subject="sudo",
        found=refused.words.removeprefix("sudo: "),
        wanted="sudo without a terminal, and without a password or with --ask-sudo-password",
        cause=f"{refused.reason}: what only root can read is unknown, and no repair can be made",
        fix=refused.fix,
    )
