"""Host rules about what most of the other nodes were given, and this one was not."""

from collections.abc import Callable, Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.ranges import ranges
from gpu_node.facts.node import NodeState


@check("host.numa-balancing")
def numa_balancing(at: At) -> Iterator[Fault]:
    if others := _most_others(at, _keeps_memory):
        yield Fault("kernel.numa_balancing", "1", f"0, as on {others}")


@check("host.container-runtime")
def container_runtime(at: At) -> Iterator[Fault]:
    if others := _most_others(at, _gives_gpus):
        yield Fault("nvidia-container-toolkit", "not installed", f"installed, as on {others}")


def _most_others(at: At, has: Callable[[NodeState], bool | None]) -> str:
    """Return the other nodes that have what this one lacks, if they are most; None is neither."""
    if has(at.node) is not False:
        return ""
    having = [name for name, state in at.nodes.states.items() if has(state)]
    lacking = [name for name, state in at.nodes.states.items() if has(state) is False]
    return ranges(having) if len(having) >= len({*lacking, at.nodes.name}) else ""


def _keeps_memory(state: NodeState) -> bool | None:
    """Whether memory stays on its NUMA node; None where there is one, or none is known."""
    mode, _, nodes = (state.host.numa_balancing or "").partition(" ")
    return None if nodes in ("", "0") else mode == "0"


def _gives_gpus(state: NodeState) -> bool | None:
    """Whether root's docker may give GPUs to containers; None where it does not run."""
    daemons = state.shm.docker.daemons if state.shm.docker else ()
    return next((each.toolkit for each in daemons if each.kind == "root" and each.pid), None)
