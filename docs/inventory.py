"""Writes docs/inventory.md: every key of a cluster file, by the models that check it.

`python docs/inventory.py` writes it again; a test fails when it does not match the models.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from pydantic import BaseModel

from gpu_node.inventories.errors import KeyPath, dotted
from gpu_node.inventories.fields.own import OwnCheck
from gpu_node.inventories.fields.paths import Directory
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.inventories.fields.switched import Off
from gpu_node.inventories.keys import Key, keys_of
from gpu_node.inventories.schema import HostEntry

PAGE = Path(__file__).parent / "inventory.md"
_HEAD = """\
# Keys of the inventory

A cluster file has four keys: `cluster` (its name), `defaults`, `groups` and `hosts`. The keys below
can be under `defaults`, under a group and under a host. The host's value has precedence over the
group's, and the group's value over the default, key by key. A key that no level sets is not
managed: no run changes it. The report compares it between the nodes, and judges what needs no
wanted value ([rules.md](rules.md) says which rules do). `driver: 535`, `nccl:
match-torch`, `network: auto` and `launcher: deepspeed` are short for `driver: {version: 535}`,
`nccl: {version: match-torch}`, `network: {interface: auto}` and `launcher: {kind: deepspeed}`.
[inventories/lab.yml](../inventories/lab.yml) is an example, and
[how-to/own-checks.md](how-to/own-checks.md) has more about `own_checks`.

`docs/inventory.py` writes this page; do not edit it."""
_TABLE = "| key | what it does | value | default |\n|---|---|---|---|"
_ABOUT = {
    **dict.fromkeys(("address", "group", "user", "port", "key"), "hosts"),
    **dict.fromkeys(("drain", "resume"), "reboot"),
}
# Keys whose items, or entries, have keys: how these are written, and their model.
_WITHIN: dict[KeyPath, tuple[str, type[BaseModel]]] = {
    ("directories",): ("directories[]", Directory),
    ("own_checks",): ("own_checks[]", OwnCheck),
    ("checks",): ("checks.RULE", Off),
}
# Sizes that the models hold as bytes.
_BYTES = ("workspace.backup.max",)
_PERCENT = ("workspace.delete_limit",)


def page() -> str:
    """Return the page as Markdown."""
    # What hosts alone have, then one table for each area.
    keys = sorted(_keys(), key=lambda key: _area(key) != "hosts")
    parts = [_HEAD]
    for area, rows in groupby(keys, key=_area):
        parts.append("\n".join([f"## {area}", "", _TABLE, *map(_row, rows)]))
    return "\n\n".join(parts) + "\n"


def _keys() -> Iterator[Key]:
    for key in keys_of(HostEntry):
        yield key
        if key.path in _WITHIN:
            name, model = _WITHIN[key.path]
            for inner in keys_of(model):
                yield inner._replace(path=(name, *inner.path))


def _area(key: Key) -> str:
    """Return the heading of a key: its section; for a key at the top of a level its subject."""
    first = str(key.path[0]).removesuffix("[]").removesuffix(".RULE")
    return _ABOUT.get(first, first)


def _row(key: Key) -> str:
    path = dotted(key.path)
    return f"| `{path}` | {key.does} | {key.allowed} | {_default(path, key)} |"


def _default(path: str, key: Key) -> str:
    if key.is_needed:
        section = dotted(key.path[:-1])
        return f"needed in `{section}`" if section else "needed"
    if not isinstance(key.default, str | int):
        return "none"
    if path in _BYTES:
        return f"`{format_size(int(key.default))}`"
    return f"`{key.default}%`" if path in _PERCENT else f"`{key.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
