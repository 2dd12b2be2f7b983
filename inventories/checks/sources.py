"""Check the sources of copies in a cluster file: the node exists, and the excludes match."""

from collections.abc import Collection, Iterable, Iterator

from gpu_node.inventories.errors import KeyPath, Problem, at, did_you_mean, nearest, shown
from gpu_node.inventories.fields.paths import CONTROLLER, NODE_NAME, relative
from gpu_node.inventories.yaml.read import Document

_FEW = 8
# Where one is named, and what else than a node it may be.
_SOURCES = (
    (("workspace", "source"), (CONTROLLER,)),
    (("nccl", "copy_from"), ()),
)
_Named = tuple[KeyPath, object, tuple[str, ...]]


def _sources(document: Document, layer: KeyPath) -> Iterator[_Named]:
    """Yield each key of a level that names a source, its value, and the words for no node.

    A list under `workspace` may not have been moved yet.
    """
    for key, words in _SOURCES:
        yield (*layer, *key), at(document.value, (*layer, *key)), words
    for name in ("workspace", "workspaces"):
        listed = at(document.value, (*layer, name))
        for each in listed if isinstance(listed, list) else ():
            yield (*layer, "workspaces"), at(each, ("source",)), (CONTROLLER,)


def naming(document: Document, layers: Iterable[KeyPath], node: str) -> Iterator[KeyPath]:
    """Where a node is named as a source, but for its own entry."""
    for layer in layers:
        for path, written, _ in _sources(document, layer):
            if layer != ("hosts", node) and written == node:
                yield path


def unknown_source(document: Document, layer: KeyPath, hosts: Collection[str]) -> Iterator[Problem]:
    """A source, of the workspace or of Python environments, that is no node of the cluster."""
    for path, written, words in _sources(document, layer):
        known = [*hosts, *words]
        if isinstance(written, str) and written not in known:
            allowed = ", or ".join((*words, NODE_NAME))
            why = f"no such node{did_you_mean(written, known)}"
            yield Problem(path, shown(written), why, allowed, _meant(written, known))


def _meant(written: str, known: list[str]) -> str:
    near = nearest(written, known)
    if near or len(known) > _FEW:
        return f"write {near or NODE_NAME}"
    return f"write one of {', '.join(known)}"


def absolute_excludes(
    document: Document, levels: Iterable[KeyPath], wanted: object
) -> Iterator[Problem]:
    """Patterns that begin with /: rsync's are relative to the source, and paths exclude nothing."""
    sources = [at(wanted, ("workspace", key)) for key in ("from", "path")]
    folders = [folder for folder in sources if isinstance(folder, str)]
    for level in levels:
        path = (*level, "workspace", "exclude")
        written = at(document.value, path)
        listed = written if isinstance(written, list) else []
        meant = {str(each): relative(each, folders) for each in listed}
        bad = {pattern: better for pattern, better in meant.items() if better}
        if bad:
            why = "an absolute path: a pattern is relative to the source"
            allowed = "patterns relative to the source"
            then = f"write {', '.join(bad.values())}"
            yield Problem(path, ", ".join(map(shown, bad)), why, allowed, then)
