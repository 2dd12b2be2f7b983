"""What pyinfra gets of a cluster file, or the reasons why it gets nothing.

`pyinfra @gpu-node/site.yml` gets each host with all of its data. `pyinfra site.py` gets the levels
of the file as groups, which the file may edit, and the hosts by the same connector.
"""

import os
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any, NamedTuple
from weakref import WeakKeyDictionary

import click
from pyinfra.api import State
from pyinfra.api.arguments import all_argument_meta
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.ssh import ConnectorData
from pyinfra.context import ctx_state
from pyinfra_cli.exceptions import CliError
from pyinfra_cli.util import parse_cli_arg
from typing_extensions import override

from gpu_node.facts.areas import AREAS
from gpu_node.inventories import pyinfra_patches
from gpu_node.inventories.cluster import Cluster, Data, PyinfraGroup
from gpu_node.inventories.connection.names import INVENTORY, NAME
from gpu_node.inventories.errors import (
    InventoryError,
    as_printed,
    did_you_mean,
    listed,
    quoted,
    shown,
    worded,
)
from gpu_node.inventories.escape import visible_lines
from gpu_node.inventories.keys import flat_key, leaf_paths
from gpu_node.inventories.schema import load
from gpu_node.inventories.wanted import Areas, NodeWanted

# What a run may do beyond harmless repairs; no cluster file has them.
SWITCHES = ("allow_disruption", "allow_deletions", "override_locks", "reboot")
# What a run repairs alone: of the areas, these; of the nodes, these, the others being asked only.
PARTS = ("areas", "change")
# What a run tries beside that: with `all`, every login between the nodes of a large cluster.
MESH, EVERY_LOGIN = "mesh", "all"
# A host for pyinfra: its name, its data, its groups.
NodeData = tuple[str, Data, list[str]]


class _Given(NamedTuple):
    """What an inventory file (.py) got: its cluster, groups that it may edit, the list of `all`."""

    cluster: Cluster
    groups: dict[str, PyinfraGroup]
    names: list[str]


# By the path of the inventory file.
_given: dict[str, _Given] = {}
# By run and path: pyinfra makes each inventory twice.
_read: WeakKeyDictionary[State, dict[str, Cluster]] = WeakKeyDictionary()


class InventoryRefused(InventoryError, PyinfraError, CliError):  # type: ignore[misc]
    """An InventoryError that pyinfra's command line shows as its lines alone, and exits 1.

    PyinfraError passes the code that runs an inventory file, CliError passes the command around
    it (pyinfra_cli ships no types, hence the exception above); anything else ends as a traceback.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        InventoryError.__init__(self, lines)
        self.message = str(self)

    @override
    def show(self, file: IO[Any] | None = None) -> None:
        lines = map(visible_lines, self.lines)
        click.echo(as_printed("\n".join(lines)), file=file, err=file is None)

    @override
    def __str__(self) -> str:
        return "\n".join(self.lines)


def groups_of(inventory_file: str) -> dict[str, PyinfraGroup]:
    """The groups in the cluster file beside an inventory file: `lab.yml` for `lab.py`.

    They may be edited: a host that no group names any more is left out. In `all`, one name stands
    for all hosts.
    """
    # Not above: pyinfra's command sets up its output first.
    pyinfra_patches.install()
    cluster = _loaded(Path(inventory_file).with_suffix(".yml"))
    groups = cluster.pyinfra_groups()
    path = os.path.abspath(inventory_file)
    _, data = groups["all"]
    names = [f"@{NAME}/{path}"]
    groups["all"] = (names, {**data, INVENTORY: shown_path(inventory_file)})
    _given[path] = _Given(cluster, groups, names)
    return groups


def names_data(path: str) -> Iterator[NodeData]:
    """Yield the hosts of `@gpu-node/PATH`: those of a cluster file, or of an inventory file."""
    if path in _given:
        yield from _left(path, _given[path])
        return
    pyinfra_patches.install()
    if Path(path).suffix != ".yml":
        why = "pyinfra splits INVENTORY at each comma" if _inventories() > 1 else ""
        if Path(path).suffix == ".py":
            why = "a .py file is named without @gpu-node/"
        allowed = f"@{NAME}/PATH with a cluster file (.yml), and no comma in PATH"
        raise InventoryRefused([f"INVENTORY: {worded(repr(f'@{NAME}/{path}'), why, allowed)}"])
    cluster = _read_once(path)
    of_all = [cluster.file.stem] if cluster.file.stem not in cluster.groups else []
    for name, host in cluster.hosts.items():
        groups = [host.group] if host.group is not None else []
        data = {**cluster.data_of(name), INVENTORY: shown_path(path)}
        yield name, data, [*groups, *of_all]


def _left(path: str, given: _Given) -> Iterator[NodeData]:
    """Yield the hosts that are in a group yet, or never were in one, with their own data.

    pyinfra adds the groups, and the data of those.
    """
    cluster, groups, names = given
    of_all = _entries(groups.get("all", []))
    if of_all is not names and of_all == names:  # a filter by names, which would leave all hosts in
        why = "a new list of the one name that stands for all hosts"
        allowed = "the list as it was, or one with further hosts"
        then = "remove a host from its group, or give --exclude"
        raise InventoryRefused([f"{shown_path(path)}: all: {worded(why, '', allowed, then)}"])
    named: dict[str, Data] = {}
    for group, value in groups.items():
        for entry in _entries(value) if group != "all" else ():
            name, data = entry if isinstance(entry, tuple) else (entry, {})
            named[name] = {**named.get(name, {}), **data}
    for name, host in cluster.hosts.items():
        if host.group is None or name in named:
            yield name, dict(named.get(name) or host.data), []


def _entries(group: PyinfraGroup | list[Any]) -> list[Any]:
    return group[0] if isinstance(group, tuple) else group


def _read_once(path: str) -> Cluster:
    """Return the cluster of a file, which a run reads once."""
    if not ctx_state.isset():
        return _loaded(Path(path))
    known = _read.setdefault(ctx_state.get(), {})
    if path not in known:
        known[path] = _loaded(Path(path))
    return known[path]


def _loaded(file: Path) -> Cluster:
    """Return the cluster of a file, checked, also against the options of the command line."""
    try:
        cluster = load(file)
        if (context := click.get_current_context(silent=True)) and _inventories() < 2:
            _check_options(cluster, context.params)
    except InventoryError as error:
        raise InventoryRefused(error.lines) from None
    return cluster


def _inventories() -> int:
    """Return how many inventories pyinfra's command line names; 0 where there is none."""
    context = click.get_current_context(silent=True)
    given = str(context.params.get("inventory") or "") if context else ""
    return 0 if not given else 1 if Path(given).exists() else given.count(",") + 1


def shown_path(file: str) -> str:
    """Return a path as typed in this folder."""
    path = os.path.relpath(file)
    return file if path.startswith("..") else path


def _check_options(cluster: Cluster, options: dict[str, Any]) -> None:
    """Refuse a name that matches no host: pyinfra would do nothing, and exit 0."""
    limit, exclude = (_repeated(options.get(option)) for option in ("limit", "exclude"))
    problems = [
        _unmatched(cluster, option, word)
        for option, words in (("--limit", limit), ("--exclude", exclude))
        for word in words
        if not _matching(cluster, word)
    ]
    chosen = {name for word in limit for name in _matching(cluster, word)} or set(cluster.hosts)
    chosen -= {name for word in exclude for name in _matching(cluster, word)}
    if not problems and not chosen:
        problems.append(
            f"--exclude: {worded('every host', '', 'fewer, so that at least one host is left')}"
        )
    problems += _bad_data(cluster, sorted(chosen), _repeated(options.get("data")))
    if problems:
        raise InventoryError(problems)


def _repeated(option: Any) -> list[str]:
    return [option] if isinstance(option, str) else [str(word) for word in option or ()]


def _matching(cluster: Cluster, word: str) -> list[str]:
    """The hosts that pyinfra finds for a word: a group's, or those whose name fits."""
    if word == cluster.file.stem and word not in cluster.groups:
        return list(cluster.hosts)
    members = [host.name for host in cluster.hosts.values() if host.group == word]
    return members or [name for name in cluster.hosts if fnmatch(name, word)]


def _unmatched(cluster: Cluster, option: str, word: str) -> str:
    if word in cluster.groups:
        problem = worded(shown(word), "a group without hosts", "one with hosts")
        return f"{option}: {problem}"
    names = [*cluster.groups, *cluster.hosts]
    parts = [part.strip() for part in word.split(",")]
    # Each word has an option for itself.
    is_list = len(parts) > 1 and set(parts) <= set(names)
    then = " ".join(f"{option} {part}" for part in parts) if is_list else ""
    why = f"matches no host{'' if then else did_you_mean(word, names)}"
    return (
        f"{option}: {worded(shown(word), why, f'{listed(names)}, or a pattern with * or ?', then)}"
    )


def _bad_data(cluster: Cluster, hosts: Iterable[str], words: Iterable[str]) -> list[str]:
    """Return what is wrong with --data, before any node is contacted."""
    pairs = [word.partition("=") for word in words]
    override_data = {key: parse_cli_arg(value) for key, _, value in pairs}
    unknown = {key: _unknown_key(key) for key in override_data}
    lines = dict.fromkeys(line for each in unknown.values() for line in each)
    known_data = {key: value for key, value in override_data.items() if not unknown[key]}
    for key in SWITCHES:
        if not isinstance(override_data.get(key, False), bool):
            problem = worded(shown(override_data[key]), "", "true or false")
            lines[f"--data {key}: {problem}"] = None
    if override_data.get(MESH, EVERY_LOGIN) != EVERY_LOGIN:
        lines[f"--data {MESH}: {worded(shown(override_data[MESH]), '', EVERY_LOGIN)}"] = None
    for key, known in (("areas", AREAS), ("change", tuple(cluster.hosts))):
        for word in _words_in(override_data.get(key, known)):
            if word not in known:
                why = f"no such name{did_you_mean(str(word), known)}"
                allowed = f"{listed(known)}, several with commas"
                lines[f"--data {key}: {worded(shown(word), why, allowed)}"] = None
    for name in hosts if known_data else ():
        try:
            NodeWanted.from_data({**cluster.data_of(name), **known_data})
        except InventoryError as error:
            lines.update(dict.fromkeys(f"--data {line}" for line in error.lines))
    return list(lines)


def _words_in(value: object) -> list[object]:
    """The words of a value of --data: text with commas, or a list."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    return list(value) if isinstance(value, list | tuple) else [value]


def unknown_data(key: str) -> list[str]:
    """Return what is wrong with a key of --data that neither our deploy nor pyinfra reads."""
    ours = _our_keys()
    theirs = [
        *ConnectorData.__annotations__,
        *(each for each in all_argument_meta if each[0] == "_"),
    ]
    if key in (*ours, *theirs):
        return []
    why = f"no such key{did_you_mean(key, [*ours, *theirs])}"
    return [f"--data: {worded(quoted(key), why, ', '.join(ours))}"]


def _our_keys() -> list[str]:
    return [*(flat_key(path) for path in leaf_paths(Areas)), *SWITCHES, *PARTS, MESH]


def _unknown_key(key: str) -> list[str]:
    """What is wrong with a key that looks like one of ours; any other may mean something else."""
    known = _our_keys()
    word = re.sub("[^a-z0-9]+", "_", key.lower())
    area = word.partition("_")[0]
    # ssh_port, ssh_timeout and the like are pyinfra's.
    areas = [name for name in Areas.model_fields if name != "ssh"]
    ours = get_close_matches(area, areas, n=1, cutoff=0.8)
    ours += get_close_matches(word, (*SWITCHES, *PARTS, MESH), n=1, cutoff=0.8)
    joined = [name for name in known if name.replace("_", "") == word.replace("_", "")]
    if key in known or not (ours or joined):
        return []
    hint = did_you_mean(word, known)
    return [f"--data: {worded(quoted(key), f'no such key{hint}', ', '.join(known))}"]
