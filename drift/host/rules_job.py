"""Host rule about a job: the states of its model fit into GPU memory and into the node's memory."""

from collections.abc import Iterator

from gpu_node.drift import units
from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Thing
from gpu_node.drift.host.estimate import BUFFERS, Estimate, Job, estimate
from gpu_node.drift.host.machine import memory_of
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import Peer
from gpu_node.inventories.wanted import JobsWanted

GPU_MEMORY, HOST_MEMORY = "GPU memory for the job", "host memory for the job"
# The share of a GPU for the states; the rest is for activations, the largest layer, CUDA's context
# and NCCL's buffers. Proposed, from one incident: 29.3 of 31.7 GiB (92 %) for the states ended in
# CUDA OOM, with batch 1 and gradient checkpointing.
_STATES_AT_MOST = 0.85
_SOURCE = (
    "by DeepSpeed's estimate_zero3_model_states_mem_needs and the ZeRO paper; activations, the "
    "largest layer, CUDA and NCCL come on top of it"
)


@check("host.memory-for-job")
def memory_for_job(at: At) -> Iterator[Fault]:
    jobs = at.wanted.jobs
    if jobs is None or jobs.parameters is None or jobs.zero is None or at.wanted.is_cpu_node:
        return
    own = at.wanted.gpu.count if at.wanted.gpu else found_gpus(at.node)
    if own is None:
        yield _not_estimated("this node")
        return
    counts = {name: each for name, each in at.nodes.once(_gpus).items() if name != at.nodes.name}
    unknown = [each for each, count in counts.items() if count is None]
    if unknown:
        yield _not_estimated(", ".join(unknown))
        return
    gpus = own + sum(count or 0 for count in counts.values())
    offload = jobs.offload == "cpu"
    needed = estimate(Job(jobs.parameters, jobs.zero, offload, gpus, own))
    yield from _on_gpus(at.node, jobs, needed)
    yield from _in_memory(at.node, jobs, needed)


def _not_estimated(what: str) -> Fault:
    return Fault(
        subject=Thing("memory for the job"),
        found=f"not estimated: the number of GPUs of {what} is unknown",
        wanted="the number of GPUs of all nodes",
        cause="ZeRO divides the states of the model among all GPUs of the job",
        fix="name them in the inventory: gpu: {model: ..., count: ...}",
        severity="info",
        explains="none",
    )


def found_gpus(state: NodeState) -> int | None:
    smi = state.driver.smi
    return (len(smi.gpus) if smi else 0) or len(state.driver.own_devices or ()) or None


def _gpus(nodes: Nodes) -> dict[str, int | None]:
    return {peer.name: gpus_of(peer, nodes) for peer in nodes.peers}


def gpus_of(peer: Peer, nodes: Nodes) -> int | None:
    """Return the GPUs of another node: as the inventory says, since one may be lost for now."""
    state = nodes.states.get(peer.name)
    return found_gpus(state) if peer.gpus is None and state else peer.gpus


def _on_gpus(state: NodeState, jobs: JobsWanted, needed: Estimate) -> Iterator[Fault]:
    gpus = state.driver.smi.gpus if state.driver.smi else ()
    sizes = [gpu.memory * 1024**2 for gpu in gpus if gpu.memory]
    if not sizes or needed.gpu <= min(sizes) * _STATES_AT_MOST:
        return
    smallest = min(sizes)
    fits = needed.gpu <= smallest
    left = f", which leaves {units.size(smallest - needed.gpu)}" if fits else ""
    yield Fault(
        subject=Thing(GPU_MEMORY),
        found=f"{units.size(smallest)} on the smallest GPU",
        wanted=f"{units.size(needed.gpu)} for the states of the model alone{left}",
        cause=f"'CUDA out of memory': {needed.gpu_formula}, {_SOURCE}",
        fix=_less(jobs),
        severity="warning" if fits else None,
        explains="none",
    )


def _less(jobs: JobsWanted) -> str:
    ways = []
    if jobs.zero != 3:
        ways.append("ZeRO stage 3 (jobs: {zero: 3})")
    if jobs.offload != "cpu":
        ways.append(
            "offload of optimizer and parameters to the CPU (jobs: {zero: 3, offload: cpu} shows "
            "whether the memory of the nodes is enough)"
        )
    return ", ".join([*ways, "more GPUs, a smaller model, or fewer trained parameters (LoRA)"])


def _in_memory(state: NodeState, jobs: JobsWanted, needed: Estimate) -> Iterator[Fault]:
    memory = memory_of(state)
    if memory is None or needed.host <= memory:
        return
    # The factor for buffers is an estimate; without it the job does not fit in any way.
    severity: Severity | None = "warning" if needed.host <= memory * BUFFERS else None
    if jobs.offload == "cpu" and jobs.zero:
        fix = "less offload (of the optimizer alone, or to NVMe), more nodes, or a smaller model"
    else:
        fix = "load the model with deepspeed.zero.Init or low_cpu_mem_usage=True, one rank at a "
        fix += "time, or use ZeRO stage 3"
    yield Fault(
        subject=Thing(HOST_MEMORY),
        found=units.size(memory),
        wanted=f"{units.size(needed.host)} for the ranks of this node",
        cause="the kernel kills a rank ('exits with return code = -9'): "
        f"{needed.host_formula} for buffers, {_SOURCE}",
        fix=fix,
        severity=severity,
    )
