"""Workspace rule about git-lfs: models and data are there, and not pointers to them."""

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.workspace.copy import is_source
from gpu_node.facts.node import NodeState
from gpu_node.facts.workspace.pointers import Pointers
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.wanted import WorkspaceWanted

_NAMED = 3


@check("workspace.lfs-pointer")
def lfs_pointer(at: At) -> Iterator[Fault]:
    for each in at.wanted.every_workspace:
        yield from _in_one(at.node, each, at.nodes)


def _in_one(state: NodeState, wanted: WorkspaceWanted, nodes: Nodes) -> Iterator[Fault]:
    source = is_source(wanted, nodes)
    own = (wanted.origin or wanted.path) if source else wanted.path
    pointers = (state.workspace.pointers or {}).get(own)
    if pointers is None:
        return
    if pointers.partial:
        yield _not_complete(own, pointers)
    for clone, names in pointers.clones.items():
        yield _pointers(own, clone, names, wanted, source)


def _pointers(
    own: str, clone: str, names: tuple[str, ...], wanted: WorkspaceWanted, source: bool
) -> Fault:
    more = ", ..." if names[_NAMED:] else ""
    there = own if source else (wanted.origin or wanted.path)
    where = quote(f"{there}/{clone}" if clone != "." else there)
    on = "" if source else f" on {wanted.source}, then run the deploy"
    return Fault(
        subject=Path(f"{own}/{clone}" if clone != "." else own),
        found=f"{counted(len(names), 'pointer')} of git-lfs: {', '.join(names[:_NAMED])}{more}",
        wanted="the files that they point to",
        fix=f"cd {where} && git lfs install --local && git lfs pull{on}",
    )


def _not_complete(own: str, pointers: Pointers) -> Fault:
    return Fault(
        subject=Path(own),
        found=f"not complete: {pointers.partial}",
        wanted="all small files examined",
        cause="what was not examined may be a pointer of git-lfs",
        fix=f"look for them: grep -rIl --include='*.bin' git-lfs.github.com/spec {quote(own)}",
        severity="info",
    )
