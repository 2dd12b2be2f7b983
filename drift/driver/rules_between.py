"""Driver rule between nodes: all nodes of a job have the same driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_node.drift.driver.shown import NO_DRIVER
from gpu_node.drift.engine.compare import fault
from gpu_node.drift.engine.nodes import Unlike
from gpu_node.drift.engine.rule import At, Fault, check


@check("driver.differs")
def differs(at: At) -> Iterator[Fault]:
    for each in at.nodes.unlike:
        if each.fact.name == "driver.version":
            # An inventory may be of nodes without GPUs, or of their SSH alone.
            is_warning = at.wanted.driver is None and not _are_versions(each)
            yield replace(fault(each), severity="warning" if is_warning else None)


def _are_versions(unlike: Unlike) -> bool:
    """Whether the node has another version than a node beside it, or cannot be read."""
    versions = [value for value in unlike.values if value not in NO_DRIVER]
    return unlike.value is None or (unlike.value not in NO_DRIVER and len(versions) > 1)
