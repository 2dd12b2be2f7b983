"""What a finding is about, as data: steps and causes read this, people read its text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from typing_extensions import override

from gpu_node.drift.ranges import ranges


@dataclass(frozen=True)
class Subject:
    """What a finding is about; its text is the `subject` of the report."""

    def is_same(self, other: Subject) -> bool:
        """Whether both name the same thing: each field that both have is equal, and there is one.

        A kernel and the initramfs of that kernel are the same; so are a Python environment and a
        package in it.
        """
        names = self._shared(other)
        return bool(names) and all(getattr(self, name) == getattr(other, name) for name in names)

    def is_apart(self, other: Subject) -> bool:
        """Whether both name such a thing, and not the same one; a plain name may be anything."""
        is_plain = isinstance(self, Thing) or isinstance(other, Thing)
        return not is_plain and bool(self._shared(other)) and not other.is_same(self)

    def _shared(self, other: Subject) -> set[str]:
        return {each.name for each in fields(self)} & {each.name for each in fields(other)}


@dataclass(frozen=True)
class Thing(Subject):
    """What needs no data beside its name: dkms, the persistence mode."""

    thing: str

    @override
    def __str__(self) -> str:
        return self.thing


@dataclass(frozen=True)
class RootOnly(Thing):
    """A fact that only root can read."""


@dataclass(frozen=True)
class Path(Subject):
    """A file, a folder or a mount point; `machine` where it is not on the node."""

    path: str
    machine: str = ""

    @override
    def __str__(self) -> str:
        return f"{self.path} on {self.machine}" if self.machine else self.path


@dataclass(frozen=True)
class FileLine(Subject):
    """A line of a file, counted from 1."""

    path: str
    line: int

    @override
    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Pid(Subject):
    """A process."""

    pid: int
    command: str = ""

    @override
    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command})" if self.command else f"pid {self.pid}"


@dataclass(frozen=True)
class Prefix(Subject):
    """A Python environment, by its prefix."""

    environment: str

    @override
    def __str__(self) -> str:
        return self.environment


@dataclass(frozen=True)
class Package(Subject):
    """A package of a Python environment."""

    package: str
    environment: str

    @override
    def __str__(self) -> str:
        return f"{self.package} in {self.environment}"


@dataclass(frozen=True)
class SystemPackages(Subject):
    """Packages of the system's package manager."""

    packages: tuple[str, ...]

    @override
    def __str__(self) -> str:
        return ", ".join(self.packages)


@dataclass(frozen=True)
class Peers:
    """Peers of a node of which the same is wrong.

    `own` has what is wrong with each of them in full, where `words` only sum it up.
    """

    words: str
    names: tuple[str, ...]
    own: tuple[str, ...] = ()

    def only(self, names: Collection[str]) -> Peers:
        """Return those of them that are in `names`."""
        kept = [at for at, name in enumerate(self.names) if name in names]
        own = tuple(self.own[at] for at in kept) if self.own else ()
        return Peers(self.words, tuple(self.names[at] for at in kept), own)

    @override
    def __str__(self) -> str:
        count = len(self.names)
        words = self.own[0] if count == 1 and self.own else self.words
        return f"{_named(self.names)}: {words}"


# A list of more different things that are wrong is no list that a person reads.
_MOST_WORDS = 3


@dataclass(frozen=True)
class Logins(Subject):
    """Logins between a node and its peers; its text is the node's name.

    `peers` is about each peer that is concerned, once.
    """

    node: str
    peers: tuple[Peers, ...]

    @cached_property
    def names(self) -> frozenset[str]:
        """The peers that it is about."""
        return frozenset(name for peer in self.peers for name in peer.names)

    @property
    def count(self) -> int:
        """The number of peers that it is about; `names` of many nodes would be much to keep."""
        return sum(len(peer.names) for peer in self.peers)

    @property
    def peer(self) -> str | None:
        """The peer that it is about if it is only one."""
        is_one = len(self.peers) == 1 and len(self.peers[0].names) == 1
        return self.peers[0].names[0] if is_one else None

    @property
    def found(self) -> str:
        """The peers as ranges, with their number, and what is wrong with them."""
        shown = self.peers[:_MOST_WORDS]
        rest = [name for peer in self.peers[len(shown) :] for name in peer.names]
        more = [f"{len(rest)} more, {ranges(rest)}"] if rest else []
        return "; ".join([*map(str, shown), *more])

    def only(self, names: Collection[str]) -> Logins:
        """Return it about those of its peers that are in `names`."""
        parts = (peer.only(names) for peer in self.peers)
        return Logins(self.node, tuple(part for part in parts if part.names))

    @override
    def is_same(self, other: Subject) -> bool:
        """Whether both are about logins of one node with the same peer."""
        if not isinstance(other, Logins) or self.node != other.node:
            return False
        return not self.names.isdisjoint(other.names)

    @override
    def __str__(self) -> str:
        return self.node


def about_one(node: str, peer: str) -> Logins:
    """Return the logins between a node and one peer."""
    return Logins(node, (Peers("", (peer,)),))


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} nodes, {ranges(names)}"


@dataclass(frozen=True)
class Interface(Subject):
    """A network interface."""

    interface: str

    @override
    def __str__(self) -> str:
        return self.interface


@dataclass(frozen=True)
class Shell(Subject):
    """A kind of shell: that of a launcher, or an interactive one."""

    shell: str

    @override
    def __str__(self) -> str:
        return self.shell


@dataclass(frozen=True)
class Variable(Subject):
    """An environment variable, and the place that sets it where the finding is about that."""

    variable: str
    place: str = ""

    @override
    def __str__(self) -> str:
        return f"{self.variable} ({self.place})" if self.place else self.variable


@dataclass(frozen=True)
class Limit(Subject):
    """A resource limit (nofile, memlock, stack), and the place that sets it."""

    limit: str
    place: str = ""

    @override
    def is_same(self, other: Subject) -> bool:
        """Whether both are about the same limit, wherever it is set."""
        return isinstance(other, Limit) and self.limit == other.limit

    @override
    def __str__(self) -> str:
        return self.place or self.limit


@dataclass(frozen=True)
class Gpu(Subject):
    """A GPU, by its UUID, or a GPU model."""

    gpu: str

    @override
    def __str__(self) -> str:
        return self.gpu


@dataclass(frozen=True)
class User(Subject):
    """A user of the node."""

    user: str

    @override
    def __str__(self) -> str:
        return self.user
