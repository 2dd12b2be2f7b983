"""Where a value of host data is set: a line of the cluster file, or of Python that overrides it."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from gpu_node.inventories.cluster import Cluster
from gpu_node.inventories.errors import InventoryError, KeyPath
from gpu_node.inventories.keys import flat_key, leaf_paths
from gpu_node.inventories.schema import line_of, load
from gpu_node.inventories.wanted import NodeWanted


class ValuePlaces:
    """The files of an inventory, as typed; they are read where a place is asked for."""

    def __init__(self, inventory: str) -> None:
        self._inventory, file = inventory, Path(inventory)
        self._file, self._python = file.with_suffix(".yml"), file.with_suffix(".py")
        # Of one name the second has precedence.
        folders = (Path("group_data"), file.parent / "group_data")
        self._group_data = [each for each in dict.fromkeys(folders) if each.is_dir()]

    @cached_property
    def _cluster(self) -> Cluster | None:
        try:
            return load(self._file) if self._file.is_file() else None
        except InventoryError:
            return None

    def of(self, host: str, groups: Iterable[str], path: KeyPath, data: Mapping[str, Any]) -> str:
        """Return FILE:LINE of what sets a value of a host; FILE alone where no line is known.

        `path` is that of the model or of the flat data, which `data` is.
        """
        key = _key(path)
        value, cluster = data.get(key), self._cluster
        if cluster and host in cluster.hosts and cluster.data_of(host).get(key) == value:
            number = line_of(self._file)(host, path)
            return f"{self._file}:{number}" if number else self._inventory
        for file in self._files(groups):
            if number := _assigned(file, key, value):
                return f"{file}:{number}"
        number = max(_named(_tree(self._python), key), default=0)
        return f"{self._python}:{number}" if number else self._inventory

    def groups(self) -> Iterator[tuple[str, str]]:
        """Yield the place and the name of each group of the cluster file that wants something."""
        for name, data in self._cluster.groups.items() if self._cluster else ():
            if data:
                yield f"{self._file}: groups.{name}", name

    def explained(
        self, error: InventoryError, host: str, groups: Iterable[str], data: Mapping[str, Any]
    ) -> list[str]:
        """Return the lines of an error of host data, each with its place and the host."""
        names = list(groups)
        return [
            f"{self.of(host, names, (key,), data)}: {host}: {line}"
            for key, line in zip(error.keys, error.lines, strict=True)
        ]

    def _files(self, groups: Iterable[str]) -> Iterator[Path]:
        """Yield the files of a host's group data, those that have precedence first."""
        for group in (*reversed([*groups]), "all"):
            for folder in reversed(self._group_data):
                yield folder / f"{group}.py"


def _key(path: KeyPath) -> str:
    """Return the flat key of a value, or of the mapping that it is in."""
    leaves = (each for each in leaf_paths(NodeWanted) if path[: len(each)] == each)
    return flat_key(next(leaves, path[:1]))


def _tree(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return ast.Module([], [])


def _assigned(file: Path, key: str, value: object) -> int:
    """Return the last line that gives a name this value, or one that is computed; 0: none does."""
    lines = [0]
    for each in _tree(file).body:
        targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == key for target in targets):
            lines += [each.lineno] * (_literal(getattr(each, "value", None), value) == value)
    return lines[-1]


def _literal(node: ast.expr | None, computed: object) -> object:
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return computed


def _named(tree: ast.Module, key: str) -> Iterator[int]:
    """Yield each line on which a program names a key."""
    for node in ast.walk(tree):
        words = (getattr(node, name, None) for name in ("id", "value", "arg", "attr"))
        if isinstance(node, ast.expr | ast.keyword) and key in words:
            yield node.lineno
