"""Failures: an area that fails on a node ends alone there, with the areas that depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyinfra import logger
from pyinfra.api import Host, State

# Of each node, the areas that failed in this run.
_failed: WeakKeyDictionary[Host, list[str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Area:
    """The condition (`_if`) of an area's operations on a node: neither it nor one before failed."""

    host: Host
    name: str
    after: Sequence[str] = ()

    def __bool__(self) -> bool:
        """Return False, for pyinfra's dry run: it counts changes under a true `_if` apart.

        These are none that depend on anything: an operation is skipped only where one has failed.
        """
        return False

    def __call__(self) -> bool:
        return set(_failed.get(self.host, ())).isdisjoint((self.name, *self.after))


def alone(host: Host, name: str, seconds: int, after: Sequence[str] = ()) -> dict[str, Any]:
    """Return the arguments of an area's operations, so that a failure ends this area alone.

    `seconds` is the time limit of each; `after` names the areas without which this one cannot work.
    """
    # In a deploy file `host` is a proxy for the host at work.
    itself = host.state.inventory.get_host(host.name)
    return {"_ignore_errors": True, "_if": Area(itself, name, after), "_timeout": seconds}


def note(state: State, host: Host, operation: str) -> None:
    """Note that an operation (its hash) failed on a node; one outside of an area is not noted."""
    condition = state.get_op_data_for_host(host, operation).global_arguments.get("_if")
    for each in condition if isinstance(condition, list) else [condition]:
        if isinstance(each, Area):
            failed = _failed.setdefault(host, [])
            if each.name not in failed:
                failed.append(each.name)
                logger.error(
                    f"{host.print_prefix}{each.name}: failed; the other areas go on, and the node "
                    "fails at the end"
                )


def failed(host: Host) -> tuple[str, ...]:
    """Return the areas that failed on a node, in the order in which they did."""
    return tuple(_failed.get(host, ()))
