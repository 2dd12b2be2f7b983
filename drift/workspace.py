"""What a copy of the workspace would send and delete, and whether it can be made at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from drift.among import Among
from drift.copied import will_have_rsync
from facts.node import NodeState
from facts.workspace import SPECIAL, Tree
from inventories.places import CONTROLLER
from inventories.schema import WorkspaceWanted

_NAMED = 3


@dataclass(frozen=True)
class Copy:
    """The workspace of a node beside that of its source; a tree is None where it is not known."""

    source: str
    origin: str
    path: str
    theirs: Tree | None
    ours: Tree | None
    delete: bool = False

    @cached_property
    def _theirs(self) -> dict[str, str]:
        return self.theirs.entries if self.theirs else {}

    @cached_property
    def _sent(self) -> dict[str, str]:
        return {path: rest for path, rest in self._theirs.items() if rest not in SPECIAL}

    @cached_property
    def _ours(self) -> dict[str, str]:
        return self.ours.entries if self.ours else {}

    @property
    def is_known(self) -> bool:
        """Whether both were listed."""
        return all(each is not None and bool(each.digest) for each in (self.theirs, self.ours))

    @property
    def is_same(self) -> bool:
        """Whether a copy would send nothing, and delete nothing."""
        if self.theirs and self.ours and self.theirs.digest == self.ours.digest != "":
            return True
        return not self.send and not self.change and not self.remove

    @property
    def send(self) -> list[str]:
        """What the source has and the node has not."""
        return sorted(self._sent.keys() - self._ours.keys())

    @property
    def change(self) -> list[str]:
        """What the node has otherwise."""
        both = self._sent.keys() & self._ours.keys()
        return sorted(path for path in both if self._sent[path] != self._ours[path])

    @property
    def remove(self) -> list[str]:
        """What the node alone has, where that is to go."""
        return sorted(self._ours.keys() - self._theirs.keys()) if self.delete else []

    @property
    def passed_over(self) -> str:
        """How many entries of the source rsync does not send, with a few names; empty for none."""
        paths = sorted(self._theirs.keys() - self._sent.keys())
        return _some("not sent (a pipe, socket or device)", paths) if paths else ""

    @property
    def bytes(self) -> int:
        """The bytes of the files that are sent."""
        entries = (self._theirs[path].split(" ") for path in (*self.send, *self.change))
        return sum(int(entry[2]) for entry in entries if entry[0] == "-")

    @property
    def shown(self) -> str:
        """How many are sent, changed and deleted, with a few names of each."""
        parts = (("to send", self.send), ("changed", self.change), ("extra", self.remove))
        return "; ".join(_some(words, paths) for words, paths in parts if paths)


def _some(words: str, paths: list[str]) -> str:
    more = ", ..." if paths[_NAMED:] else ""
    return f"{len(paths)} {words}: {', '.join(paths[:_NAMED])}{more}"


def copy_of(found: NodeState, wanted: WorkspaceWanted, among: Among) -> Copy | None:
    """Return the copy that a node is to get; None on the source, which gets none."""
    if is_source(wanted, among):
        return None
    origin = wanted.origin or wanted.path
    if wanted.source == CONTROLLER:
        theirs = found.workspace.source
    else:
        source = among.found.get(wanted.source)
        theirs = source.workspace.trees.get(origin) if source else None
    ours = found.workspace.trees.get(wanted.path)
    return Copy(wanted.source, origin, wanted.path, theirs, ours, wanted.delete is True)


def is_source(wanted: WorkspaceWanted, among: Among) -> bool:
    """Whether the node is the one that the others get their workspace from."""
    return wanted.source == among.name


def can_copy(found: NodeState, wanted: WorkspaceWanted, among: Among) -> bool:
    """Whether both sides have an rsync, or get one first, and the source was asked in this run."""
    if not will_have_rsync(found):
        return False
    if wanted.source == CONTROLLER:
        return bool(found.workspace.source_rsync)
    source = among.found.get(wanted.source)
    return source is not None and bool(source.workspace.rsync)
