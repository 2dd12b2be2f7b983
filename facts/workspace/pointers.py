"""Pointers of git-lfs in the workspace: what a clone without git-lfs has in place of models.

A pointer is text of less than 200 bytes, and begins with the address of its format (git-lfs,
docs/spec.md). Only small files with the names of models and data are opened.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from posixpath import normpath

from pydantic import Field

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.owner import SHARED
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import assigned, shell

SECTION = "workspace.pointers"
_SUFFIXES = (
    *("bin", "safetensors", "pt", "pth", "ckpt", "gguf", "onnx", "h5", "msgpack", "model", "npz"),
    *("npy", "arrow", "parquet", "jsonl", "zip", "gz", "tar", "zst"),
)
# The small files that are opened, the pointers that are listed, and the time for one folder.
_MOST, _SHOWN, _SECONDS = 5000, 200, 15
_LOOK = shell(
    "workspace/pointers",
    suffixes=" -o ".join(f'-name "*.{suffix}"' for suffix in _SUFFIXES),
    most=_MOST,
    shown=_SHOWN,
    seconds=_SECONDS,
    all_seconds=_SECONDS + 5,
)
_ENDS = {
    "0": "",
    "1": "some folders could not be read",
    "137": f"the walk took more than {_SECONDS} s",
    "most": f"it has more than {_MOST} small files, or {_SHOWN} pointers",
}


class Pointers(State):
    """The pointers below a folder by the clone that they are in, both relative to the folder.

    `partial` is why not all files were examined.
    """

    clones: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    partial: str = ""


def section(paths: Sequence[str], user: str) -> Section:
    """Return the section about the folders of the workspace; `user` trains."""
    given = f"set -- {shlex.join(paths)}\n{assigned(user=user)}"
    seconds = 10 + (_SECONDS + 6) * len(paths)
    return Section(SECTION, given + _LOOK, seconds, shared=(SHARED,))


@dataclass
class _Tree:
    """What the lines about a folder have brought; `begun` are pointers before their walk's end."""

    clones: dict[str, list[str]] = field(default_factory=dict)
    begun: list[tuple[str, str]] = field(default_factory=list)
    partial: str = ""
    is_ended: bool = False

    def end(self, code: str) -> None:
        for clone, name in self.begun:
            self.clones.setdefault(clone, []).append(name)
        self.begun = []
        partial = _ENDS[code] if code in _ENDS else f"find ended with {int(code)}"
        self.partial = self.partial or partial
        self.is_ended = True


def parse(text: str) -> dict[str, Pointers]:
    """Parse the lines of pointers.sh: the folders that exist, each with its pointers."""
    trees: dict[str, _Tree] = {}
    tree = None
    for line in filter(None, text.split("\n")):
        first, _, rest = line.partition("\t")
        if first == "tree":
            tree = trees[rest] = _Tree()
        elif tree is None or not rest:
            raise Unreadable(f"not understood: {line[:80]!r}")
        elif first == "end":
            tree.end(rest)
        else:
            tree.begun.append((normpath(first), normpath(rest)))
    return {path: _pointers(each) for path, each in trees.items()}


def _pointers(tree: _Tree) -> Pointers:
    partial = tree.partial if tree.is_ended else "it could not be entered"
    clones = {clone: tuple(names) for clone, names in tree.clones.items()}
    return Pointers(clones=clones, partial=partial)
