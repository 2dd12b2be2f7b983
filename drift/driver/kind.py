"""The GPUs and the driver of a node, in words."""

from collections.abc import Iterator

from gpu_node.drift.driver.rules_gpus import no_gpu
from gpu_node.drift.driver.shown import NO_DRIVER
from gpu_node.drift.engine.shown_facts import Has, value
from gpu_node.facts.node import NodeState
from gpu_node.inventories.plurals import counted


def kind(node: NodeState, elsewhere: str) -> Iterator[Has]:
    """Yield the GPUs and the driver of a node."""
    gpus, driver = (value(name, node) for name in ("driver.gpus", "driver.version"))
    devices = len(node.driver.devices or ())
    if gpus is None:
        yield Has("GPUs unreadable")
    elif gpus != "none":
        yield Has(gpus)
    elif devices:
        # A container that was given none, where no rule of the driver knows why.
        words = f"{counted(devices, 'GPU')} of which none answers"
        yield Has(words, starts=False, rule="driver", lacks="no GPU answers")
    else:
        yield Has("no GPU", starts=False, rule=no_gpu.id)
    if driver is None:
        yield Has("driver unreadable")
    elif driver not in NO_DRIVER:
        yield Has(f"driver {driver}")
    elif devices or gpus != "none":
        yield Has("no driver" if driver == NO_DRIVER[0] else f"driver {driver}")
