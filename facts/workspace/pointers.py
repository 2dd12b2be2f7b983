"""Pointers of git-lfs in the workspace: what a clone without git-lfs has in place of models.

A pointer is text of less than 200 bytes, and begins with the address of its format (git-lfs,
docs/spec.md). Only small files with the names of models and data are opened.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Sequence
from posixpath import normpath

from pydantic import Field

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
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


def parse(text: str) -> dict[str, Pointers]:
    """Parse the lines of pointers.sh: the folders that exist, each with its pointers."""
    first, *trees = re.split(r"^tree\t", text, flags=re.MULTILINE)
    if first.strip():
        raise Unreadable(f"not understood: {first[:80]!r}")
    return dict(map(_tree, trees))


def _tree(text: str) -> tuple[str, Pointers]:
    path, *lines = lines_of(text)
    clones = defaultdict[str, list[str]](list)
    begun: list[tuple[str, str]] = []  # the pointers of a walk count once it has ended
    ends: list[str] = []
    for line in filter(None, lines):
        clone, _, name = line.partition("\t")
        if not name:
            raise Unreadable(f"not understood: {line[:80]!r}")
        if clone != "end":
            begun.append((normpath(clone), normpath(name)))
            continue
        ends.append(_ENDS[name] if name in _ENDS else f"find ended with {int(name)}")
        for clone, pointer in begun:
            clones[clone].append(pointer)
        begun = []
    partial = next(filter(None, ends), "") if ends else "it could not be entered"
    known = {clone: tuple(names) for clone, names in clones.items()}
    return path, Pointers(clones=known, partial=partial)
