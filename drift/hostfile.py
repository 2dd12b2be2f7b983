"""The hostfile of DeepSpeed's launcher: a line a node, with as many slots as it has GPUs."""

from collections.abc import Mapping

from gpu_node.drift.report.seen import Seen
from gpu_node.facts.node import NodeState
from gpu_node.inventories.plurals import counted

# A machine that says that it has more has not been counted.
_MOST_GPUS = 64


class NoHostfile(Exception):
    """A hostfile that would start too many ranks, or too few; `str()` has a line a node."""


def hostfile(seen: Mapping[str, Seen]) -> str:
    """Return `NAME slots=N` for each node: the inventory's count, checked against the GPUs found.

    Where the inventory says no count it is the one found. Raises NoHostfile where a node gave no
    answer or has another count: half a hostfile would start a job that waits for ever. A node with
    `gpu: none` has no line.
    """
    on = {name: node for name, node in seen.items() if not node.wanted.is_cpu_node}
    wrong = [f"{name}: {reason}" for name, node in on.items() if (reason := wrong_count(node))]
    if seen and not on:
        wrong = ["found gpu: none for all nodes; allowed: a node with GPUs; next: correct gpu"]
    if wrong:
        raise NoHostfile("\n".join(wrong))
    return "".join(f"{name} slots={_slots(node)}\n" for name, node in on.items())


def _slots(node: Seen) -> int | None:
    if node.wanted.gpu is not None:
        return node.wanted.gpu.count
    return None if node.state is None else gpus(node.state)


def wrong_count(node: Seen) -> str:
    """Return what is wrong with a node's number of GPUs; empty if nothing is."""
    if node.state is None:
        return f"found no answer: {node.error}"
    count, slots = gpus(node.state), _slots(node)
    if count is None:
        return "found GPUs that could not be counted; next: gpu-node drift"
    if not slots:
        return (
            "found no GPU; allowed: one or more; next: gpu-node drift shows why, or write gpu: none"
        )
    if count != slots:
        return (
            f"found {counted(count, 'GPU', none='no')}; allowed: {slots}, the inventory's "
            "gpu.count; next: gpu-node drift shows what is wrong, or correct the count"
        )
    return ""


def gpus(state: NodeState) -> int | None:
    """Return how many GPUs a node has, by nvidia-smi, else by the PCI bus; None if unknown."""
    listed = state.driver.smi.gpus if state.driver.smi is not None else ()
    devices = listed or state.driver.own_devices
    return None if devices is None or len(devices) > _MOST_GPUS else len(devices)
