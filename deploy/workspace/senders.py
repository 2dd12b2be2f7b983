"""Who sends a tree of files: its source, and each node that has received all of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gevent.queue import SimpleQueue
from pyinfra import logger
from pyinfra.api import Host, State

from gpu_node.deploy.engine.run import Slot, run_of

# To how many nodes each sends at the same time. With equal connections one after the other is as
# quick; two use a line that one rsync does not fill.
_AT_ONCE = 2


@dataclass(frozen=True)
class Sender:
    """A node, or the controller, and the tree's folder there."""

    node: str
    folder: str


class Senders:
    """The senders of one tree: N nodes have it after about log(N) copies, not after N."""

    def __init__(self, source: Sender) -> None:
        self.source = source
        self._free: SimpleQueue[Sender] = SimpleQueue()
        self.add(source)

    def add(self, sender: Sender) -> None:
        """Let a node send as well."""
        for _ in range(_AT_ONCE):
            self._free.put(sender)

    @contextmanager
    def one(self) -> Iterator[Sender]:
        """Yield a sender that is free; wait until there is one."""
        sender = self._free.get()
        try:
            yield sender
        finally:
            self._free.put(sender)


# The senders of each tree, by its source and the digest of its list.
_SENDERS: Slot[dict[tuple[Sender, str], Senders]] = Slot(dict)


def senders(state: State, source: Sender, digest: str = "") -> Senders:
    """Return the senders of a tree in this run; `digest` is of the list of its files."""
    return run_of(state).of(_SENDERS).setdefault((source, digest), Senders(source))


def by_one(known: Senders, host: Host, path: str, copy: Callable[[Sender], bool]) -> bool:
    """Copy a tree to a host from a sender that is free; if that fails, from the source.

    `copy` logs why it fails.
    """
    with known.one() as sender:
        done = copy(sender)
    if done or sender == known.source:
        return done
    logger.warning(
        f"{host.print_prefix}{path}: {sender.node} could not send it; {known.source.node} sends it"
    )
    return copy(known.source)
