"""A cluster file: its shape, and every check that it passes before any node is contacted."""

import ipaddress
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from gpu_node.inventories.advice import advised, as_yaml, is_right, meant, nested
from gpu_node.inventories.checks.files import missing_files
from gpu_node.inventories.checks.sources import absolute_excludes, naming, unknown_source
from gpu_node.inventories.checks.supply import unsigned_where_set
from gpu_node.inventories.checks.variables import misspelt_variables
from gpu_node.inventories.cluster import Cluster, Host, flat_data, merged, spelled, with_entries
from gpu_node.inventories.errors import (
    KeyPath,
    Problem,
    at,
    did_you_mean,
    dotted,
    nearest,
    quoted,
    shown,
)
from gpu_node.inventories.escape import MOST_LINES
from gpu_node.inventories.fields import kinds as fields
from gpu_node.inventories.keys import (
    allowed_at,
    complaints,
    keys_of_model,
    model_at,
    short_of,
    spelled_out,
)
from gpu_node.inventories.model import Model
from gpu_node.inventories.other_names import places_of
from gpu_node.inventories.wanted import Areas, NodeWanted, SshWanted, wanted_part
from gpu_node.inventories.yaml.read import Document, read

# What a host says directly, in place of `ssh: {...}`.
OF_SSH = ("user", "port", "key")
_THOUSANDS = re.compile("[0-9]{1,3}(,[0-9]{3})+")
RESERVED = ("all", "self")  # pyinfra needs these words for itself where group names go
IS_RESERVED = "pyinfra needs this name"


class SshSettings(SshWanted):
    """How a node is reached, and what it should be in the mesh."""

    user: fields.User | None = Field(default=None, title="the user to log in as")
    key: fields.FilePath | None = Field(default=None, title="the private key to log in with")
    known_hosts: fields.FilePath | None = Field(
        default=None, title="the known_hosts file with the host keys of the nodes"
    )
    port: fields.Port | None = Field(default=None, title="the port of sshd; without it 22")
    sudo: fields.Switch | None = Field(default=None, title="whether commands run through sudo")


class Layer(Areas):
    """What defaults, a group or a host say; the nearest to the host wins, key by key."""

    ssh: SshSettings | None = None


class HostEntry(Layer):
    """One node."""

    EXAMPLE = "{address: 10.0.0.4, group: gpu}"

    address: fields.Address = Field(title="the address of the node; only under hosts")
    group: fields.Name | None = Field(
        default=None, title="the group of the node, a name under groups; only under hosts"
    )
    user: fields.User | None = Field(default=None, title="the same as ssh.user; only under hosts")
    port: fields.Port | None = Field(default=None, title="the same as ssh.port; only under hosts")
    key: fields.FilePath | None = Field(default=None, title="the same as ssh.key; only under hosts")


_GROUPS: Any = Field(
    examples=[{"a100": {"shm": {"size": "8G"}}}], description="a mapping of group names"
)
_HOSTS: Any = Field(
    min_length=1,
    examples=[{"a100-01": {"address": "10.0.0.4"}}],
    description="a mapping of host names, one or more",
)


class ClusterFile(Model):
    """The whole file; the entries of groups and hosts are checked one by one."""

    cluster: fields.Name
    defaults: Layer | None = None
    groups: Annotated[dict[str, object] | None, _GROUPS] = None
    hosts: Annotated[dict[str, object], _HOSTS]


class WholeFile(Model):
    """The same with its entries: a next step is tried on it."""

    cluster: fields.Name
    defaults: Layer | None = None
    groups: Annotated[dict[fields.Name, Layer | None] | None, _GROUPS] = None
    hosts: Annotated[dict[fields.HostName, HostEntry], _HOSTS]


class _Group(Model):
    name: fields.Name


class _Host(Model):
    name: fields.HostName


def load(
    path: str | os.PathLike[str], text: str | None = None, *, may_be_new: bool = False
) -> Cluster:
    """The cluster in a file; InventoryError lists everything that is wrong.

    `text` is checked in place of what the file contains. A file that `may_be_new` can have an empty
    `hosts`.
    """
    document = read(Path(path), text)
    _check(document, may_be_new)
    return _cluster(document)


def _check(document: Document, may_be_new: bool = False) -> None:
    """Raise InventoryError with everything that is wrong with a document."""
    for problem in _joined(document):
        document.add(problem)
    _spell_out(document)
    for problem in _problems(document):
        is_new = may_be_new and problem.path == ("hosts",) and _is_new(document)
        if not is_new and not _is_read_wrong(document, problem):
            document.add(_as_written(document, problem))
    for problem in list(_incomplete(document)):
        document.add(problem)
    # Of those that a command shows: each next step is tried on the models.
    document.problems.sort(key=lambda each: each[0])
    for number, (line, problem) in enumerate(document.problems[:MOST_LINES]):
        document.problems[number] = line, _advised(document, problem)
    document.finish()


def sources_named(path: Path, name: str) -> list[str]:
    """Where a cluster file names a host as the source of copies: FILE:LINE: KEY."""
    document = read(path)
    paths = naming(document, (layer for layer, _ in _layers(document)), name)
    return [f"{path}:{document.line(each)}: {dotted(each)}" for each in paths]


def line_of(path: Path) -> Callable[[str, KeyPath], int]:
    """Return what finds the line of a cluster file that sets a host's value; 0: none does."""
    document = read(path)
    _spell_out(document)

    def line(host: str, key: KeyPath) -> int:
        found = (document.lines.get((*level, *key), 0) for level in _levels(document, host)[::-1])
        return next(filter(None, found), 0)

    return line


def _is_read_wrong(document: Document, problem: Problem) -> bool:
    """Whether a mapping is empty because its keys could not be read, which is reported."""
    count, is_empty = len(problem.path), at(document.value, problem.path) == {}
    return is_empty and any(each.path[:count] == problem.path for _, each in document.problems)


def _is_new(document: Document) -> bool:
    """Whether there is a place for hosts, and none in it."""
    return ("hosts",) in document.lines and at(document.value, ("hosts",)) in (None, {})


def _joined(document: Document) -> Iterator[Problem]:
    """Put what a comma in braces ended together again; yield each value that is so written."""
    whole: dict[KeyPath, str] = {}
    for path, before, is_close in document.bare:
        place, holder = (*path[:-1], before), at(document.value, path[:-1])
        model, level = _model_at(place)
        section = model_at(model, path[level:-1])
        is_known = section is None or path[-1] in keys_of_model(section)
        if isinstance(holder, dict) and (is_close or not is_known):
            whole[place] = f"{whole.get(place, document.written[place])},{path[-1]}"
            holder.pop(str(path[-1]), None)
            holder[before] = whole[place]
    document.written |= whole
    for path, text in whole.items():
        model, level = _model_at(path)
        key, allowed = path[level:], allowed_at(model, path[level:])
        is_number = _THOUSANDS.fullmatch(text)
        then = ""
        if is_right(model, key, text) and not is_number:
            then = f"write {path[-1]}: {json.dumps(text)}"
        why = "a comma ends a value in braces"
        yield Problem(path, quoted(text), why, allowed, then, "comma")


def _spell_out(document: Document) -> None:
    """Put the mapping for text that stands for one: levels then merge whatever their form."""
    for layer, entry in _layers(document):
        if isinstance(entry, dict) and isinstance(entry.get("workspace"), list):
            _as_list(document, layer, entry)
        for path, whole in list(spelled_out(Layer, entry)):
            assert isinstance(entry, dict) and isinstance(whole, dict)
            entry[path[-1]] = whole
            for key in whole:
                inner, outer = (*layer, *path, key), (*layer, *path)
                document.lines[inner] = document.lines[outer]
                document.written[inner] = document.written[outer]


def _as_list(document: Document, layer: KeyPath, entry: dict[str, object]) -> None:
    """Move a list under `workspace` to `workspaces`, unless that is set, too."""
    if "workspaces" not in entry:
        entry["workspaces"] = entry.pop("workspace")
        old, new = (*layer, "workspace"), (*layer, "workspaces")
        # The lines of what is in the list, too: numbers in another notation have been reported.
        for path in [path for path in document.lines if path[: len(old)] == old]:
            document.lines[(*new, *path[len(old) :])] = document.lines[path]


def _said_twice(document: Document) -> Iterator[Problem]:
    for name, entry in _entries(document, "hosts").items():
        for key in OF_SSH:
            is_set = at(entry, ("ssh", key)) is not None
            if is_set and isinstance(entry, dict) and key in entry:
                why = f"hosts.{name}.ssh.{key} is set, too"
                allowed, then = "one of the two", "remove one of the two"
                yield Problem(("hosts", name, key), shown(entry[key]), why, allowed, then)


def _as_written(document: Document, problem: Problem) -> Problem:
    """Show yes as yes and 3.10 as 3.10, not as what YAML makes of them."""
    value = at(document.value, problem.path)
    if isinstance(value, bool | float) and problem.found == shown(value):
        return problem._replace(found=shown(document.written[problem.path]))
    return problem


def _advised(document: Document, problem: Problem) -> Problem:
    """Return a problem with its next step: what to write, as far as the model knows it."""
    path = problem.path
    if not problem.then:
        then = _misplaced(document, problem)
        problem = problem._replace(then=then)
    model, level = _model_at(path)
    written = document.written.get(path, "")
    value = at(document.value, path[:-1] if problem.kind == "missing" else path)
    return advised(model, problem, value, written, level)


def _model_at(path: KeyPath) -> tuple[type[Model], int]:
    """Return the model of a level of the file, and behind how many keys its own begin."""
    if path[:1] == ("defaults",):
        return Layer, 1
    if path[:1] in (("groups",), ("hosts",)) and path[1:]:
        return (HostEntry if path[0] == "hosts" else Layer), 2
    return WholeFile, 0


def _misplaced(document: Document, problem: Problem) -> str:
    """Return where a key belongs that another level has; empty for any other problem."""
    path = problem.path or ("",)
    value, is_unknown = at(document.value, path), problem.kind == "extra_forbidden"
    if problem.kind == "missing" and any(each[1:] == path for each in document.lines):
        return f"move {path[0]} to the top of the file"
    if then := _per_host(document, problem):
        return then
    if is_unknown and "did you" not in problem.why and value and is_right(Layer, (), value):
        return f"write its keys under {dotted(path[:-1]) or 'defaults'}"
    entry = at(document.value, path[:2])
    is_of_hosts = ("hosts",) in places_of(WholeFile, path[-1:])
    if path[0] == "groups" and path[1:] and (isinstance(entry, list | str) or is_of_hosts):
        return f"write group: {path[1]} at each of its hosts"
    of_top = [key for key in path[1:] if key in ClusterFile.model_fields]
    if of_top and problem.kind in ("extra_forbidden", "missing") and "did you" not in problem.why:
        return f"move {of_top[0]} to the top of the file"
    if path[0] in ("groups", "hosts") and path[1:]:
        if is_unknown and at(value, ("address",)) is not None:
            return f"put {path[-1]} under hosts itself, with group: {path[1]}"
        is_key = is_right(_model_at(path)[0], path[1:2], entry)
        return f"indent {path[1]} below the name of a {str(path[0])[:-1]}" if is_key else ""
    if not is_unknown or path[1:]:
        return ""
    if path[0] in Layer.model_fields:
        return f"move {path[0]} under defaults, a group or a host"
    is_host = at(value, ("address",)) is not None
    return f"indent {path[0]}: it belongs under hosts" if is_host else ""


def _per_host(document: Document, problem: Problem) -> str:
    """Return where the values of hosts or groups belong that are under one key."""
    (model, level), path = _model_at(problem.path), problem.path
    value = at(document.value, path)
    if problem.kind != "extra_forbidden" and isinstance(value, dict) and value:
        path = (*path, next(iter(value)))
    *keys, name = path[level:] or ("",)
    section = next((each for each in ("hosts", "groups") if name in _entries(document, each)), "")
    keys += [key] if keys and (key := short_of(model, tuple(keys))) else []
    value = at(document.value, path)
    if not section or not keys or not is_right(HostEntry, tuple(keys), value):
        return ""
    return f"move each to its {section[:-1]}, such as {nested((section, name, *keys), value)}"


def _entries(document: Document, section: str) -> dict[str, object]:
    entries = at(document.value, (section,))
    return entries if isinstance(entries, dict) else {}


def _layers(document: Document) -> Iterator[tuple[KeyPath, object]]:
    yield ("defaults",), at(document.value, ("defaults",))
    for section in ("groups", "hosts"):
        for name, entry in _entries(document, section).items():
            yield (section, name), entry


def _problems(document: Document) -> Iterator[Problem]:
    """Yield what is wrong with each value by itself."""
    yield from complaints(ClusterFile, document.value, partial=True)
    yield from _bad_names(document)
    yield from _bad_groups(document)
    yield from _shared_addresses(document)
    yield from _said_twice(document)
    for path, entry in _layers(document):
        model = HostEntry if path[0] == "hosts" else Layer
        for problem in complaints(model, {} if entry is None else entry, partial=True):
            yield problem._replace(path=(*path, *problem.path))
        yield from missing_files(document, path)
        yield from unknown_source(document, path, _entries(document, "hosts"))
    for name in _entries(document, "hosts"):
        levels, wanted = _levels(document, name), _wanted(document, name)
        yield from absolute_excludes(document, levels, wanted)
        yield from unsigned_where_set(document, levels, wanted)
        yield from misspelt_variables(document, levels, wanted)


def _bad_names(document: Document) -> Iterator[Problem]:
    groups = _entries(document, "groups")
    taken = (*RESERVED, document.file.stem)
    for name in groups:
        for problem in complaints(_Group, {"name": name}):
            yield _renamed(_Group, problem, ("groups", name))
        if name in RESERVED:
            why, allowed, then = IS_RESERVED, "another name", f"rename group {name}"
            yield Problem(("groups", name), shown(name), why, allowed, then)
    for name in _entries(document, "hosts"):
        for problem in complaints(_Host, {"name": name}):
            yield _renamed(_Host, problem, ("hosts", name))
        if name in groups or name in taken:
            why = "a group has this name" if name not in RESERVED else IS_RESERVED
            then = "rename the host" if name in (*RESERVED, *groups) else "rename it, or the file"
            yield Problem(("hosts", name), shown(name), why, "another name", then)


def _renamed(model: type[Model], problem: Problem, path: KeyPath) -> Problem:
    """Return the problem of a name at its place, with a name to write."""
    better = meant(model, problem.path, path[-1])
    then = f"write {as_yaml(better)}" if better else "write one name a line, such as a100-01"
    return problem._replace(path=path, then=then)


def _bad_groups(document: Document) -> Iterator[Problem]:
    groups = _entries(document, "groups")
    allowed = ", ".join(groups) or "a name under groups, which has none yet"
    for name, entry in _entries(document, "hosts").items():
        group = at(entry, ("group",))
        if isinstance(group, str) and group not in groups:
            near = nearest(group, groups)
            why = f"no such group{did_you_mean(group, groups)}"
            # A v100 is as near to an a100 as a slip is.
            then = f"write group: {near}, or " if near else ""
            then += f"add {group if near else 'it'} under groups: {{{group}: {{}}}}"
            yield Problem(("hosts", name, "group"), shown(group), why, allowed, then)


def _shared_addresses(document: Document) -> Iterator[Problem]:
    hosts = _entries(document, "hosts")
    addresses = {name: at(entry, ("address",)) for name, entry in hosts.items()}
    given = {name: (each, 0) for name, each in addresses.items() if isinstance(each, str)}
    for name, owner, problem in shared(given):
        line = document.line(("hosts", owner, "address"))
        why = f"hosts.{owner} has it too, on line {line}"
        yield problem._replace(path=("hosts", name, "address"), why=why)


def shared(logins: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, str, Problem]]:
    """Yield each host whose address and port another one before it has, and that one."""
    first: dict[tuple[str, int], str] = {}
    for name, (address, port) in logins.items():
        owner = first.setdefault((one_spelling(address), port), name)
        if owner != name:
            allowed, then = "one address a host", f"write the address of {name} itself"
            why = f"{owner} has it too"
            yield name, owner, Problem(("ssh_hostname",), shown(address), why, allowed, then)


def one_spelling(address: str) -> str:
    """One spelling for every way to write an address."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.lower()


def _incomplete(document: Document) -> Iterator[Problem]:
    """Yield keys that a host needs and that no level sets."""
    faulty = {problem.path[:-1] for _, problem in document.problems}
    for name in _entries(document, "hosts"):
        layers = _levels(document, name)
        wanted = _wanted(document, name)
        for problem in complaints(NodeWanted, wanted):
            parent = problem.path[:-1]
            given = [layer for layer in layers if (*layer, *parent) in document.lines]
            blamed = given[-1] if given else layers[-1]
            is_known = any((*layer, *parent) in faulty for layer in layers)
            if parent and at(wanted, problem.path) is None and not is_known:
                path = (*blamed, *problem.path)
                why = f"host {name} needs it"
                yield problem._replace(path=path, why=why, kind="missing")


def _levels(document: Document, host: str) -> list[KeyPath]:
    group = at(document.value, ("hosts", host, "group"))
    groups: list[KeyPath] = [] if group is None else [("groups", str(group))]
    return [("defaults",), *groups, ("hosts", host)]


def _spelled(document: Document, levels: Iterable[KeyPath]) -> list[object]:
    return [spelled(at(document.value, level)) for level in levels]


def _wanted(document: Document, host: str) -> dict[str, object]:
    """Return what a node should be by all levels, without the keys for reaching it."""
    return wanted_part(merged(_spelled(document, _levels(document, host))))


def _cluster(document: Document) -> Cluster:
    def data(*levels: KeyPath) -> dict[str, object]:
        layers = _spelled(document, levels)
        return with_entries(layers, flat_data(layers[-1], document.file))

    hosts = {}
    for name in _entries(document, "hosts"):
        wanted = NodeWanted.model_validate(_wanted(document, name), context=fields.WRITTEN)
        group = at(document.value, ("hosts", name, "group"))
        group = None if group is None else str(group)
        hosts[name] = Host(name, group, wanted, data(*_levels(document, name)))
    groups = _entries(document, "groups")
    return Cluster(
        name=str(at(document.value, ("cluster",))),
        file=document.file,
        hosts=hosts,
        groups={name: data(("defaults",), ("groups", name)) for name in groups},
        defaults=data(("defaults",)),
    )
