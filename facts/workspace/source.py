"""The controller's workspace, the source for nodes: listed by rsync, as on a node."""

import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from gpu_node.facts.ask.controller import run_here
from gpu_node.facts.node import NodeState, UnreadSection
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.request import CONTROLLER, Copied
from gpu_node.facts.workspace import mounts
from gpu_node.facts.workspace.state import (
    TREE_SECONDS,
    Tree,
    listing,
    parse_rsync,
    section_of,
    tree,
)

# Nodes that are probed in parallel are compared with the same list.
_KEPT_SECONDS = 5.0
_kept: dict[Copied, tuple[float, Tree]] = {}


def with_source(state: NodeState, copied: Copied | None) -> NodeState:
    """Return a node's state, with the controller's tree if the controller is the source."""
    if copied is None or copied.source != CONTROLLER:
        return state
    try:
        version = parse_rsync(_run(["rsync", "--version"]).stdout.partition("\n")[0])
        known = {"source_rsync": version, "source": own_tree(copied)}
    except Unreadable as error:
        section = f"{section_of(copied.origin)} on the controller"
        unread = UnreadSection(area="workspace", section=section, reason=str(error))
        return state.model_copy(update={"unreadable": (*state.unreadable, unread)})
    workspace = state.workspace.model_copy(update=known)
    return state.model_copy(update={"workspace": workspace})


def with_sources(state: NodeState, copies: Sequence[Copied]) -> NodeState:
    """Return a node's state, with each of the controller's trees that is a source."""
    trees: dict[str, Tree] = {}
    for copied in copies:
        if copied.source == CONTROLLER:
            state = with_source(state, copied)
            if state.workspace.source is not None:
                trees[copied.origin] = state.workspace.source
            # The next one may be unreadable: it has no tree, and not this one.
            unknown = state.workspace.model_copy(update={"source": None})
            state = state.model_copy(update={"workspace": unknown})
    if not trees:
        return state
    known = {"sources": trees, "source": next(iter(trees.values()))}
    return state.model_copy(update={"workspace": state.workspace.model_copy(update=known)})


def own_tree(copied: Copied) -> Tree:
    """Return the tree that the controller would copy; raises Unreadable."""
    kept = _kept.get(copied)
    if kept is not None and time.monotonic() - kept[0] < _KEPT_SECONDS:
        return kept[1]
    ours = _listed(copied).model_copy(update=_mount(copied.origin))
    _kept[copied] = (time.monotonic(), ours)
    return ours


def _mount(path: str) -> dict[str, str | bool]:
    asked = f"{mounts.ASK}mounts {shlex.quote(path)}"
    return mounts.parse(_run(["sh", "-c", asked]).stdout)[0]


def _listed(copied: Copied) -> Tree:
    if not Path(copied.origin).is_dir():
        return Tree(exists=False)
    done = _run([*listing(copied.excludes), f"{copied.origin}/"])
    if done.returncode == 127:
        return Tree(exists=True)
    return tree(f"{done.stdout}{done.stderr}end {done.returncode}")


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with a node's settings; 127, as in a shell, if it does not exist."""
    try:
        locale = {"LC_ALL": "C", "TZ": "UTC"}
        return run_here(argv, TREE_SECONDS, locale, encoding="ascii", errors="backslashreplace")
    except FileNotFoundError:
        return subprocess.CompletedProcess(argv, 127, "", "")
    except subprocess.TimeoutExpired:
        raise Unreadable(f"no answer within {TREE_SECONDS} s") from None
