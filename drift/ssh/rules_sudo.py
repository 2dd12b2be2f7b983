"""The rule about sudo: the SSH user becomes root by it where the inventory says so."""

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.ssh.sudo import ssh_user
from gpu_node.facts.ask.sudo import why_refused


@check("ssh.sudo-refused")
def sudo_refused(at: At) -> Iterator[Fault]:
    if at.node.ssh.sudo_refusal is None:
        return
    refused = why_refused(at.node.ssh.sudo_refusal, ssh_user(at.node))
    yield Fault(
        subject="sudo",
        found=refused.words.removeprefix("sudo: "),
        wanted="sudo without a terminal, and without a password or with --ask-sudo-password",
        cause=f"{refused.reason}: what only root can read is unknown, and no repair can be made",
        fix=refused.fix,
    )
