"""Logins from a node to the others: only a few, because sshd punishes addresses for failed logins.

From 9.8 on OpenSSH refuses an address for a while after logins from it have failed
(PerSourcePenalties: 5 s for each login, enforced from 15 s on).
"""

import math
import re
from collections.abc import Iterable
from typing import Literal

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.peers import FULL_MESH, SSH_PORT, Peer, behind
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.readers import Columns, by_word
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import LIMITED, assigned, shell

# The limits for one login and for all together: logins that have not begun by then are skipped.
CONNECT_SECONDS, LOGIN_SECONDS, LOGINS_SECONDS = 5, 12, 60
# The same where a node tries few others: it waits longer for one that is busy.
CONNECT_SECONDS_OF_FEW, LOGIN_SECONDS_OF_FEW, LOGINS_SECONDS_OF_FEW = 10, 30, 90
# How many logins a node tries at a time: sshd drops some of more than ten (MaxStartups 10:30:100).
# Of a node that logs in to few others all nodes together would else have too many open; the first
# node of a large cluster has each of its logins open to another sshd.
LANES, LANES_OF_FEW, LANES_OF_FIRST = 4, 1, 8
# More logins than begin within LOGINS_SECONDS at this rate, in each lane, have more time.
SECONDS_EACH = 0.5
# What sshd sends, instead of its version, to an address that it punishes.
PUNISHED = "Not allowed at this time"
# What stands behind ssh's last line where sshd closed the connection of a user with the right key.
ACCEPTED = "after it accepted the key"

_LEFT = re.compile(r"pair \S+ (name|address) -")
_LOGINS = shell(
    "ssh/logins",
    ssh_port=SSH_PORT,
    punished=PUNISHED,
    accepted=ACCEPTED,
)


class Login(State):
    """How a login to a node by its name or address ended: ssh's exit code and last message."""

    node: str
    how: Literal["name", "address"]
    code: int
    output: str = ""

    @property
    def is_punished(self) -> bool:
        """Whether sshd refused it because of earlier logins; then no further one was tried."""
        return (self.code, self.output) == (255, PUNISHED)

    @property
    def is_account_refused(self) -> bool:
        """Whether the key was right, and the account may not log in."""
        return ACCEPTED in self.output or "Password change required" in self.output


_LOGIN = Columns(Login, "node how code output...", " ")


def seconds(request: ProbeRequest) -> int:
    """Return the time limit of the logins of a node; without logins it is the same for all."""
    if not request.logins:
        return LOGINS_SECONDS
    return _begin_seconds(request) + 24 + 2 * _login_seconds(request)


def _login_seconds(request: ProbeRequest) -> int:
    return LOGIN_SECONDS_OF_FEW if _is_partial(request) else LOGIN_SECONDS


def _begin_seconds(request: ProbeRequest) -> int:
    """Return the seconds after which no further login begins."""
    is_partial = _is_partial(request)
    count = len(tried(request)) * (1 if is_partial else 2)
    least = LOGINS_SECONDS_OF_FEW if is_partial else LOGINS_SECONDS
    return max(least, math.ceil(count / _lanes(request) * SECONDS_EACH))


def _lanes(request: ProbeRequest) -> int:
    if not _is_partial(request):
        return LANES
    return LANES_OF_FIRST if own_place(request) == 0 else LANES_OF_FEW


def script(request: ProbeRequest) -> str:
    """Return sh that logs in to the nodes as the training user, and prints the results."""
    peers = tried(request)
    if not peers or not request.logins:
        return ":"
    ways = _ways(request)
    rows = [
        f"{peer.name} {peer.address if 'address' in ways else '-'} {peer.port}" for peer in peers
    ]
    given = assigned(
        all_seconds=_begin_seconds(request),
        login_seconds=_login_seconds(request),
        connect_seconds=CONNECT_SECONDS_OF_FEW if _is_partial(request) else CONNECT_SECONDS,
        lanes=_lanes(request),
        own_place=own_place(request) or 0,
        untried=len(request.nodes) - len(peers),
        asked="\n".join(rows),
    )
    return LIMITED + given + _LOGINS


def pairs(request: ProbeRequest) -> tuple[str, ...]:
    """Return the logins that a node is asked about, as `NODE name` and `NODE address`."""
    if not request.logins:
        return ()
    return tuple(f"{peer.name} {how}" for peer in tried(request) for how in _ways(request))


def _ways(request: ProbeRequest) -> tuple[str, ...]:
    """Return how logins are tried: by name alone, as launchers do, where not all nodes are."""
    return ("name",) if _is_partial(request) else ("name", "address")


def tried(request: ProbeRequest) -> list[Peer]:
    """Return the nodes that this one logs in to.

    Up to FULL_MESH nodes, and with `every_login`, these are all of them. In a larger cluster the
    first node of the inventory logs in to all, and each other one to those at distance 1, 2, 4, ...
    behind it, round: every node is reached by some, and of N nodes each tries log N.

    A list of all begins with this node: otherwise all nodes would begin with the same sshd at once.
    """
    nodes, here = request.nodes, own_place(request)
    if here is None:
        return list(nodes[:1] if _is_partial(request) else nodes)
    if _is_partial(request) and here != 0:
        return [nodes[(here + far) % len(nodes)] for far in behind(len(nodes))]
    return [*nodes[here:], *nodes[:here]]


def _is_partial(request: ProbeRequest) -> bool:
    """Whether not every login between the nodes is tried."""
    return len(request.nodes) > FULL_MESH and not request.every_login


def own_place(request: ProbeRequest) -> int | None:
    """Return this node's place in the list of all nodes; None if it is not in it.

    Nodes behind one address have different ports.
    """
    places = [i for i, peer in enumerate(request.nodes) if peer.address == request.address]
    own = (i for i in places if request.nodes[i].port == request.port)
    return next(own, places[0] if places else None)


def parse_untried(text: str) -> int:
    """Return how many nodes are not tried, in a line `untried NUMBER`; 0 without one."""
    counts = by_word(text)["untried"]
    return checked.number(counts[0]) if counts else 0


def parse_logins(text: str) -> tuple[Login, ...]:
    """Parse `pair NODE how CODE last words`; a pair that there was no time for is left out.

    The logins end in any order; they are sorted by node, those by name first, so that nodes with
    the same results send the same text.
    """
    lines = (line for line in lines_of(text) if not line.startswith("untried "))
    logins = [_login(line) for line in lines if not is_left(line)]
    return tuple(sorted(logins, key=lambda each: place(each.node, each.how)))


def place(node: str, how: str) -> tuple[str, bool]:
    """Return the key by which pairs, and answers about names, are sorted."""
    return node, how != "name"


def is_left(line: str) -> bool:
    """Whether a line is about a login that there was no time for."""
    return _LEFT.fullmatch(line) is not None


def lacking(asked: Iterable[str], lines: Iterable[str]) -> list[str]:
    """Return the logins that a node was asked about, and that its answer is not about.

    After a login by name that was refused as a punishment none by address is tried.
    """
    rows = [line.split(" ", 4) for line in lines if line.startswith("pair ")]
    answered = {f"{row[1]} {row[2]}" for row in rows if len(row) > 3}
    punished = {f"{row[1]} address" for row in rows if row[3:] == ["255", PUNISHED]}
    return [each for each in asked if each not in answered | punished]


def _login(line: str) -> Login:
    if not line.startswith("pair "):
        raise Unreadable(line)
    return _LOGIN.row(line.removeprefix("pair "))
