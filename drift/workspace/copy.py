"""What a copy of the workspace would send and delete, and whether it can be made at all."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.nccl.environment_copy import will_have_rsync
from gpu_node.facts.node import NodeState
from gpu_node.facts.workspace.packed import SPECIAL
from gpu_node.facts.workspace.state import Tree
from gpu_node.inventories.fields.paths import CONTROLLER
from gpu_node.inventories.plurals import few
from gpu_node.inventories.wanted import WorkspaceWanted

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
    # The free bytes of the node's file system; None where that is unknown.
    room: int | None = None

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
    def is_source_empty(self) -> bool:
        """Whether the source was listed, and has folders at most."""
        return self.is_known and all(_is_folder(rest) for rest in self._sent.values())

    @property
    def bytes(self) -> int:
        """The bytes of the files that are sent."""
        return _bytes(self._theirs[path] for path in (*self.send, *self.change))

    @property
    def kept(self) -> int:
        """The bytes of the node's files that are deleted, or overwritten by others."""
        changed = (path for path in self.change if self._has_other_content(path))
        return _bytes(self._ours[path] for path in (*changed, *self.remove))

    @property
    def overwritten(self) -> int:
        """The bytes of the node's files that are replaced by others."""
        return _bytes(self._ours[path] for path in self.change if self._has_other_content(path))

    def _has_other_content(self, path: str) -> bool:
        """Whether rsync sends a file anew: another mode alone is set in its place."""
        ours, theirs = (tree[path].split(" ") for tree in (self._ours, self._sent))
        return (ours[0], ours[2:]) != (theirs[0], theirs[2:])

    @property
    def removals(self) -> int:
        """How many entries rsync deletes at most, with those in whose place another kind comes."""
        if not self.remove and not self.replaces_folder:
            return 0
        return len(self.remove) + sum(map(self._is_replaced, self.change))

    def _is_replaced(self, path: str) -> bool:
        kinds = {self._ours[path][0], self._sent[path][0]}
        return kinds not in ({"-"}, {"d"})

    @property
    def replaces_folder(self) -> bool:
        """Whether a file or link comes in the place of a folder, which takes deleting first."""
        return self.delete and any(map(self._is_folder_replaced, self.change))

    def _is_folder_replaced(self, path: str) -> bool:
        return _is_folder(self._ours[path]) and not _is_folder(self._sent[path])

    @property
    def removed(self) -> tuple[int, int]:
        """How many of the node's files are deleted, and their bytes."""
        gone = [self._ours[path] for path in self.remove]
        return sum(not _is_folder(rest) for rest in gone), _bytes(gone)

    @property
    def held(self) -> tuple[int, int]:
        """How many files the node has, and their bytes."""
        return sum(not _is_folder(rest) for rest in self._ours.values()), _bytes(
            self._ours.values()
        )

    @property
    def shown(self) -> str:
        """How many are sent, changed and deleted, with a few names of each."""
        parts = (
            ("to send", self.send),
            ("changed", self.change),
            ("would be deleted", self.remove),
        )
        return "; ".join(_some(words, paths) for words, paths in parts if paths)


def _is_folder(rest: str) -> bool:
    return rest.startswith("d ")


def _bytes(entries: Iterable[str]) -> int:
    """Return the bytes of the files among entries."""
    parts = (rest.split(" ") for rest in entries)
    return sum(int(part[2]) for part in parts if part[0] == "-")


def _some(words: str, paths: list[str]) -> str:
    return f"{len(paths)} {words}: {', '.join(few(paths, _NAMED, '...'))}"


def copy_of(state: NodeState, wanted: WorkspaceWanted, nodes: Nodes) -> Copy | None:
    """Return the copy that a node is to get; None on the source, which gets none."""
    if is_source(wanted, nodes):
        return None
    origin = wanted.origin or wanted.path
    if wanted.source == CONTROLLER:
        known = state.workspace.sources
        theirs = known.get(origin) if known else state.workspace.source
    else:
        source = nodes.states.get(wanted.source)
        theirs = source.workspace.trees.get(origin) if source else None
    ours = state.workspace.trees.get(wanted.path)
    room = (state.workspace.room or {}).get(wanted.path)
    return Copy(wanted.source, origin, wanted.path, theirs, ours, wanted.delete is True, room)


def is_source(wanted: WorkspaceWanted, nodes: Nodes) -> bool:
    """Whether the node is the one that the others get their workspace from."""
    return wanted.source == nodes.name


def can_copy(state: NodeState, wanted: WorkspaceWanted, nodes: Nodes) -> bool:
    """Whether both sides have an rsync, or get one first, and the source was asked in this run."""
    if not will_have_rsync(state):
        return False
    if wanted.source == CONTROLLER:
        return bool(state.workspace.source_rsync)
    source = nodes.states.get(wanted.source)
    return source is not None and bool(source.workspace.rsync)
