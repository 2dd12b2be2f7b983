"""Quantities as the report writes them, and the order of limits with "unlimited" at the top."""

from gpu_node.facts.limits.state import UNITS, Item, Limit

_UNITS = (" B", "K", "M", "G", "T")


def size(count: int) -> str:
    """Return bytes as a report shows what was found: the largest binary unit, one decimal at most.

    What is wanted is written exactly, by `inventories.schema.format_size`.
    """
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    text = f"{int(value * 10) / 10:.1f}"  # down: what is one byte short must not look right
    return f"{text.removesuffix('.0')}{_UNITS[unit]}"


def at_least(found: Limit, wanted: Limit) -> bool:
    """Return whether `found` grants all of `wanted`."""
    if found == "unlimited":
        return True
    return wanted != "unlimited" and found >= wanted


def limit(value: Limit, item: Item) -> str:
    """Return a limit as people write it: a number, a size, or "unlimited"."""
    if value == "unlimited":
        return value
    return str(value) if UNITS[item] == 1 else size(value)


def conf_limit(value: Limit, item: Item) -> str:
    """Return a limit as limits.conf(5) counts it."""
    return value if value == "unlimited" else str(value // UNITS[item])
