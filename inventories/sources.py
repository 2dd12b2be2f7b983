"""What a cluster file says of the workspace's source: that it is there, and excludes that work."""

from collections.abc import Collection, Iterable, Iterator

from inventories.places import CONTROLLER, is_below, relative
from inventories.problems import KeyPath, Problem, did_you_mean, shown
from inventories.reading import Document
from inventories.wanted import at


def unknown_source(document: Document, layer: KeyPath, hosts: Collection[str]) -> Iterator[Problem]:
    """A source that is no node of the cluster."""
    path = (*layer, "workspace", "source")
    written, known = at(document.value, path), [*hosts, CONTROLLER]
    if isinstance(written, str) and written not in known:
        allowed = f"{CONTROLLER}, or the name of a node under hosts"
        yield Problem(path, shown(written), f"no such node{did_you_mean(written, known)}", allowed)


def absolute_excludes(
    document: Document, levels: Iterable[KeyPath], wanted: object
) -> Iterator[Problem]:
    """Patterns that begin with /: rsync's are relative to the source, and paths exclude nothing."""
    said = [at(wanted, ("workspace", key)) for key in ("from", "path")]
    folders = [folder for folder in said if isinstance(folder, str)]
    for level in levels:
        path = (*level, "workspace", "exclude")
        written = at(document.value, path)
        listed = written if isinstance(written, list) else []
        meant = {str(each): relative(each, folders) for each in listed}
        bad = {pattern: better for pattern, better in meant.items() if better}
        if bad:
            why = "an absolute path: a pattern is relative to the source"
            allowed = [_better(pattern, better, folders) for pattern, better in bad.items()]
            yield Problem(path, ", ".join(map(shown, bad)), why, ", ".join(allowed))


def _better(pattern: str, better: str, folders: list[str]) -> str:
    """The relative form, and on what condition it is meant where the path is not in the source."""
    if is_below(pattern, folders) or not folders:
        return better
    return f"{better} (if that is below {folders[0]})"
