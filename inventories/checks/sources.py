"""Check the sources of copies in a cluster file: the node exists, and the excludes match."""

from collections.abc import Collection, Iterable, Iterator

from gpu_node.inventories.errors import KeyPath, Problem, at, did_you_mean, nearest, shown
from gpu_node.inventories.fields.paths import CONTROLLER, NODE_NAME, is_below, relative
from gpu_node.inventories.yaml.read import Document

_FEW = 8
# Where one is named, and what else than a node it may be.
_SOURCES = (
    (("workspace", "source"), (CONTROLLER,)),
    (("nccl", "copy_from"), ()),
)


def naming(document: Document, layers: Iterable[KeyPath], node: str) -> Iterator[KeyPath]:
    """Where a node is named as a source, but for its own entry."""
    for layer in layers:
        for key, _ in _SOURCES:
            if layer != ("hosts", node) and at(document.value, (*layer, *key)) == node:
                yield (*layer, *key)
        for each in _listed(document, layer):
            if layer != ("hosts", node) and at(each, ("source",)) == node:
                yield (*layer, "workspaces")


def _listed(document: Document, layer: KeyPath) -> list[object]:
    """The workspaces of a list; a list under `workspace` may not have been moved yet."""
    values = [at(document.value, (*layer, key)) for key in ("workspace", "workspaces")]
    return [each for value in values if isinstance(value, list) for each in value]


def unknown_source(document: Document, layer: KeyPath, hosts: Collection[str]) -> Iterator[Problem]:
    """A source, of the workspace or of Python environments, that is no node of the cluster."""
    for key, words in _SOURCES:
        path, known = (*layer, *key), [*hosts, *words]
        written = at(document.value, path)
        if isinstance(written, str) and written not in known:
            allowed = ", or ".join((*words, NODE_NAME))
            why = f"no such node{did_you_mean(written, known)}"
            yield Problem(path, shown(written), why, allowed, _meant(written, known))
    known = [*hosts, CONTROLLER]
    for each in _listed(document, layer):
        written = at(each, ("source",))
        if isinstance(written, str) and written not in known:
            why = f"no such node{did_you_mean(written, known)}"
            allowed = f"{CONTROLLER}, or {NODE_NAME}"
            then = _meant(written, known)
            yield Problem((*layer, "workspaces"), shown(written), why, allowed, then)


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
            allowed = [_better(pattern, better, folders) for pattern, better in bad.items()]
            then = f"write {', '.join(bad.values())}"
            yield Problem(path, ", ".join(map(shown, bad)), why, ", ".join(allowed), then)


def _better(pattern: str, better: str, folders: list[str]) -> str:
    """The relative form, and on what condition it is meant where the path is not in the source."""
    if is_below(pattern, folders) or not folders:
        return better
    return f"{better} (if that is below {folders[0]})"
