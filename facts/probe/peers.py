"""The nodes of a cluster as an inventory names them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

SSH_PORT = 22
# How many different texts about all nodes are kept parsed: nodes that are configured alike have the
# same ones.
ALIKE = 8
# What to do where two of them are one machine.
ONE_NAME = "keep one name of it in the inventory, or correct the address of the other one"


# One word that is no option: it is in command lines of ssh and getent, and in lines of answers.
Word = Annotated[str, Field(pattern=r"^([^\s\p{Cc}-][^\s\p{Cc}]*)?$")]


class Peer(BaseModel):
    """A node as the others reach it: its name in the inventory, its address, its sshd's port.

    `gpus`: how many GPUs the inventory gives it; None where it names none. `interface`: the one to
    train over, or auto; empty where the inventory does not manage it. `user`: the training user in
    the inventory; empty where that names none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Word
    address: Word
    port: int = SSH_PORT
    gpus: int | None = None
    interface: Word = ""
    user: Word = ""


def peers_of(data: Mapping[str, Any]) -> tuple[Peer, ...]:
    """Return all nodes in host data, including the node itself; empty for a bare host."""
    return _peers_of(_Same(data.get("cluster_nodes") or ()))


class _Same:
    """A value that is equal to itself alone: all hosts of an inventory have one list of nodes."""

    def __init__(self, value: Iterable[Mapping[str, Any]]) -> None:
        self.value = value

    @override
    def __hash__(self) -> int:
        return id(self.value)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


# A list for each host would make the controller's work the square of their number.
@lru_cache(maxsize=16)
def _peers_of(named: _Same) -> tuple[Peer, ...]:
    return peers(named.value)


def peers(named: Iterable[Peer | Mapping[str, Any]]) -> tuple[Peer, ...]:
    """Return peers from the values of an inventory or an operation's argument."""
    return tuple(Peer.model_validate(each) for each in named)


def spread(nodes: Sequence[Peer], most: int) -> tuple[Peer, ...]:
    """Return at most this many of some nodes, evenly from the first to the last of them."""
    step = -(-len(nodes) // most) or 1
    return tuple(nodes[::step])


# With more nodes than this, not every pair of them is tried.
FULL_MESH = 16


def partners(count: int, here: int) -> list[int]:
    """Return the places of the others that one of some nodes tries.

    Up to FULL_MESH nodes, these are all of them; else those at distance 1, 2, 4, ... behind it,
    round: every node is reached by some, and of N nodes each tries log N.
    """
    distances = range(1, count) if count <= FULL_MESH else behind(count)
    return [(here + far) % count for far in distances]


def behind(count: int) -> list[int]:
    """Return the distances 1, 2, 4, ... that are less than a number of nodes."""
    return [1 << power for power in range((count - 1).bit_length())]


def are_one(names: str) -> str:
    """Return what is wrong with some names, which a list has as text."""
    return f"{names} are one machine"
