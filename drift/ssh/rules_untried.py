"""The SSH rule about logins between nodes that the inventory asks for with a key of its own."""

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.facts.ask.via import FILES, SLURM

# Why no login was tried although the inventory asks for them, and what a report must be.
_BY_SSH = "a report over SSH"
_REASONS = {
    FILES: (
        "the answers were brought here as files; their keys, known hosts and names are compared",
        _BY_SSH,
    ),
    SLURM: (
        "a Slurm job runs as the user who calls, who is not the inventory's training user: "
        "another user's keys open no node",
        f"{_BY_SSH}, or one as the training user",
    ),
}
_NO_LOGIN = (
    "the logins were asked for, and the answer of the node has none",
    "the logins to the other nodes",
)


def _untried(via: str) -> Fault:
    """Return the finding where the answers came this way."""
    cause, wanted = _REASONS.get(via, _NO_LOGIN)
    return Fault(
        subject="logins",
        found="not tried",
        wanted=wanted,
        cause=cause,
        fix="on each node, for each other one: ssh -o BatchMode=yes NODE true",
    )


@check("ssh.logins-untried")
def logins_untried(at: At) -> Iterator[Fault]:
    mesh = at.wanted.ssh.mesh if at.wanted.ssh is not None else None
    if mesh is False or (mesh and at.node.ssh.logins != ()) or not at.nodes.others:
        return
    asked = [peer.name for peer in at.nodes.peers if peer.name in at.nodes.states]
    if asked and asked[0] != at.nodes.name:
        return  # once a report
    if mesh:
        yield _untried(at.nodes.via)
        return
    yield Fault(
        subject="logins",
        found="not tried",
        wanted="ssh: {mesh: true}, or false, in the inventory",
        cause="each pair of nodes is a login, which sshd logs, and counts where it fails: the "
        "report tries them where the inventory says so",
    )
