"""Logins from a node to the others: only a few, because sshd punishes addresses for failed logins.

From 9.8 on OpenSSH refuses an address for a while after logins from it have failed
(PerSourcePenalties: 5 s for each login, enforced from 15 s on).
"""

from __future__ import annotations

from typing import Literal

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.limited import LIMITED
from gpu_node.facts.probe.peers import SSH_PORT, Peer
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell

# The limits for one login and for all together: logins that have not begun by then are skipped.
CONNECT_SECONDS, LOGIN_SECONDS, LOGINS_SECONDS = 5, 12, 60
# With more nodes than this, only logins from and to the first node are tried.
FULL_MESH = 16
# sshd drops some of more than ten logins at a time (MaxStartups 10:30:100).
LANES = 4
# What sshd sends, instead of its version, to an address that it punishes.
PUNISHED = "Not allowed at this time"

_LOGINS = shell(
    "ssh/logins",
    login_seconds=LOGIN_SECONDS,
    connect_seconds=CONNECT_SECONDS,
    lanes=LANES,
    ssh_port=SSH_PORT,
    punished=PUNISHED,
)


class Login(State):
    """How a login to a node by its name or address ended: ssh's exit code and last message."""

    node: str
    how: Literal["name", "address"]
    code: int
    output: str

    @property
    def is_punished(self) -> bool:
        """Whether sshd refused it because of earlier logins; then no further one was tried."""
        return (self.code, self.output) == (255, PUNISHED)


def seconds() -> int:
    """Return the time limit of the logins of a node."""
    return LOGINS_SECONDS + 3 * LOGIN_SECONDS + 12


def script(request: ProbeRequest) -> str:
    """Return sh that logs in to the nodes as the training user, and prints the results."""
    rows = [f"{peer.name} {peer.address} {peer.port}" for peer in tried(request)]
    if not rows or not request.logins:
        return ":"
    place = own_place(request) or 0
    given = assigned(all_seconds=LOGINS_SECONDS, own_place=place, asked="\n".join(rows))
    return LIMITED + given + _LOGINS


def tried(request: ProbeRequest) -> list[Peer]:
    """Return the nodes that this one logs in to; in a large cluster only the first one.

    The list begins with this node: otherwise all nodes would begin with the same sshd at once.
    """
    nodes = list(request.nodes)
    here = own_place(request)
    if len(nodes) > FULL_MESH and here != 0:
        return nodes[:1]
    return nodes[here or 0 :] + nodes[: here or 0]


def own_place(request: ProbeRequest) -> int | None:
    """Return this node's place in the list of all nodes; None if it is not in it."""
    found = (i for i, peer in enumerate(request.nodes) if peer.address == request.address)
    return next(found, None)


def parse_logins(text: str) -> tuple[Login, ...]:
    """Parse `pair NODE how CODE last words`; a pair that there was no time for is left out.

    The logins end in any order; they are sorted by node, those by name first, so that nodes with
    the same results send the same text.
    """
    found = [_login(line) for line in text.splitlines() if not is_left(line)]
    return tuple(sorted(found, key=lambda each: place(each.node, each.how)))


def place(node: str, how: str) -> tuple[str, bool]:
    """Return the key by which pairs, and answers about names, are sorted."""
    return node, how != "name"


def is_left(line: str) -> bool:
    """Whether a line is about a login that there was no time for."""
    return line.split(" ")[3:] == ["-"]


def _login(line: str) -> Login:
    if not line.startswith("pair "):
        raise Unreadable(line)
    _, node, how, code, words = [*line.split(" ", 4), ""][:5]
    return Login.model_validate({"node": node, "how": how, "code": int(code), "output": words})
