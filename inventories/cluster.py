"""The nodes of a cluster with what each should be, and the same as pyinfra groups and host data."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from gpu_node.inventories.errors import at
from gpu_node.inventories.keys import flat_key, leaf_paths
from gpu_node.inventories.other_names import SSH_KEYS
from gpu_node.inventories.wanted import NodeWanted

Data = dict[str, Any]
PyinfraGroup = tuple[list[Any], Data]

# Values that are files beside the ways to reach a node, and words that stand for none.
FILES = (("nccl", "repository", "key"),)
NO_FILE = ("unsigned",)

# Values that are mappings: the levels add up, entry by entry, as everywhere in the file. pyinfra
# takes the nearest level's value as a whole, so that each level's has the entries of those above.
MAPPINGS = (
    ("toolchain", "packages"),
    *(("sysctl",), ("modprobe",), ("services",)),
    *(("env",), ("checks",)),
)

# What the hosts know of each other beside how to reach them, where the inventory has it: the value
# of the first of these keys that a host has.
_OF_PEERS = {
    "gpus": ("gpu_count",),
    "interface": ("network_interface",),
    "user": ("launcher_user", "ssh_user"),
}

# Without "yes", pyinfra accepts an unknown host key and stores it. Its time limit for
# connecting does not reach a busy sshd's banner and login, so those are raised here.
CONNECTING: Data = {
    "ssh_strict_host_key_checking": "yes",
    "ssh_paramiko_connect_kwargs": {"banner_timeout": 60, "auth_timeout": 60},
}


@dataclass(frozen=True)
class Host:
    """One node: `wanted` is what it should be, `data` the flat data of its own entry."""

    name: str
    group: str | None
    wanted: NodeWanted
    data: Data


@dataclass(frozen=True)
class Cluster:
    """Hosts in the order of the file, and the flat data of groups and defaults."""

    name: str
    file: Path
    hosts: dict[str, Host]
    groups: dict[str, Data]
    defaults: Data

    def pyinfra_groups(self) -> dict[str, PyinfraGroup]:
        """Group name to (hosts, data); the defaults are the data of the group "all".

        The three levels stay apart so that pyinfra's own precedence (--data, host, group, all)
        and a user's group_data files work as they do in any inventory.
        """
        hosts = [
            name if host.group is not None else (name, dict(host.data))
            for name, host in self.hosts.items()
        ]
        groups: dict[str, PyinfraGroup] = {"all": (hosts, self._data_of_all())}
        for group, data in self.groups.items():
            members = [host for host in self.hosts.values() if host.group == group]
            groups[group] = ([(host.name, dict(host.data)) for host in members], dict(data))
        return groups

    def data_of(self, name: str) -> Data:
        """The flat data that pyinfra will show for a host."""
        host = self.hosts[name]
        return {**self._data_of_all(), **self.groups.get(host.group or "", {}), **host.data}

    def level(self, group: str | None) -> Data:
        """The flat data that a group's hosts have of it and of the defaults; None: of these."""
        return {**self.defaults, **self.groups.get(group or "", {})}

    def _data_of_all(self) -> Data:
        """What all hosts have: how to connect, the defaults, and who else is there."""
        return {**CONNECTING, **self.defaults, "cluster_nodes": self.nodes()}

    def nodes(self) -> list[Data]:
        """Name, address, port, GPUs, interface and training user of every host."""
        return self._nodes

    @cached_property
    def _nodes(self) -> list[Data]:
        return [
            {
                "name": name,
                "address": self._value_of(name, "ssh_hostname"),
                "port": self._value_of(name, "ssh_port") or 22,
                **{
                    key: value
                    for key, names in _OF_PEERS.items()
                    if (value := next(filter(None, (self._value_of(name, of) for of in names)), 0))
                },
                **({"gpus": host.wanted.gpu.count} if host.wanted.gpu else {}),
            }
            for name, host in self.hosts.items()
        ]

    def _value_of(self, name: str, key: str) -> Any:
        """A host's value of a key, from the level nearest to it that has one."""
        host = self.hosts[name]
        levels = (host.data, self.groups.get(host.group or "", {}), self.defaults)
        return next((level[key] for level in levels if key in level), None)


def merged(levels: Iterable[object]) -> Data:
    """Later levels win key by key, mapping by mapping; an empty value sets nothing."""
    result: Data = {}
    for level in levels:
        for key, value in level.items() if isinstance(level, dict) else ():
            if isinstance(value, dict):
                before = result.get(key)
                result[key] = merged([before, value])
            elif value is not None:
                result[key] = value
    return result


def flat_data(layer: object, file: Path) -> Data:
    """The host data of one level of a cluster file."""
    keys = layer if isinstance(layer, dict) else {}
    data = {flat_key(path): at(layer, path) for path in leaf_paths(NodeWanted) if path[0] in keys}
    for path in FILES:
        written = data.get(flat_key(path))
        if written is not None and written not in NO_FILE:
            data[flat_key(path)] = full_path(file, str(written))
    data["ssh_hostname"] = at(layer, ("address",))
    for key, pyinfra_key in SSH_KEYS.items():
        value = at(layer, ("ssh", key))
        value = at(layer, (key,)) if value is None else value  # of a host, in place of `ssh`
        is_file = key in ("key", "known_hosts") and value is not None
        data[pyinfra_key] = full_path(file, str(value)) if is_file else value
    return {key: value for key, value in data.items() if value is not None}


def spelled(layer: object) -> object:
    """A level with the names of packages as pip compares them: levels may spell one differently."""
    packages = at(layer, ("toolchain", "packages"))
    if not isinstance(layer, dict) or not isinstance(packages, dict):
        return layer
    same = {canonicalize_name(str(name)): version for name, version in packages.items()}
    return {**layer, "toolchain": {**layer["toolchain"], "packages": same}}


def with_entries(levels: Iterable[object], data: Data) -> Data:
    """Add to a level's flat data the entries that the levels above it give to its mappings."""
    whole = merged(levels)
    entries = {flat_key(path): at(whole, path) for path in MAPPINGS}
    return {**data, **{key: value for key, value in entries.items() if key in data}}


def full_path(file: Path, written: str) -> str:
    """An absolute path; a relative one starts at the cluster file."""
    return os.path.abspath(file.parent / os.path.expanduser(written))
