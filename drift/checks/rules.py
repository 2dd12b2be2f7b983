"""The rule about `checks` of the inventory: what is off until a date is on again after it."""

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.inventories.fields.switched import Off


@check("checks.expired")
def expired(at: At) -> Iterator[Fault]:
    for name, entry in (at.wanted.checks or {}).items():
        if isinstance(entry, Off) and entry.is_over(at.nodes.day):
            yield Fault(
                subject=f"checks.{name}",
                found=f"off until {entry.until} ({entry.reason})",
                wanted="a day that is not over, or no entry",
            )
