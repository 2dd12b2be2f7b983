"""Which rules the inventory turns off, by which entry of `checks`, until when, and why."""

from datetime import date
from typing import NamedTuple

from gpu_node.inventories.fields.switched import Off
from gpu_node.inventories.wanted import NodeWanted


class Switch(NamedTuple):
    """What turns a rule off: a rule or an area of `checks`, with the last day and the reason.

    `until` is None and `reason` is empty where the entry is `false`.
    """

    name: str
    until: date | None = None
    reason: str = ""


def switch_of(rule_id: str, wanted: NodeWanted, day: date) -> Switch | None:
    """Return what turns a rule off on a day; None: it is on.

    `checks` has rules and areas: the entry of a rule has precedence over that of its area.
    """
    checks = wanted.checks or {}
    for name in (rule_id, rule_id.partition(".")[0]):
        entry = checks.get(name)
        if isinstance(entry, Off):
            return None if entry.is_over(day) else Switch(name, entry.until, entry.reason)
        if entry is not None:
            return None if entry else Switch(name)
    return None


def is_on(rule_id: str, wanted: NodeWanted, day: date) -> bool:
    """Whether the inventory leaves a rule on, on a day."""
    return not wanted.checks or switch_of(rule_id, wanted, day) is None
