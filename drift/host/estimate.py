"""How much memory the states of a model take: parameters, gradients and optimizer, in bytes.

Sources: DeepSpeed's estimate_zero3_model_states_mem_needs (deepspeed/runtime/zero/stage3.py) and
estimate_zero2_model_states_mem_needs (stage_1_and_2.py): 18 bytes for a parameter, which are 2 for
itself, 4 for its copy in fp32, 4 for its gradient and 8 for Adam's moments. For the stages 0 and 1,
which DeepSpeed has no function for, sections 3 and 5 of the ZeRO paper (arXiv:1910.02054): 16
bytes. These take Adam and mixed precision. Left out, as the inventory does not name them:
activations, the largest layer (4 bytes for each of its parameters), CUDA's context and NCCL's
buffers. So a job that does not fit by these numbers does not fit at all.
"""

from dataclasses import dataclass

# DeepSpeed's additional_buffer_factor, for memory of the host alone.
BUFFERS = 1.5


@dataclass(frozen=True)
class Estimate:
    """Bytes that each GPU, and this node's memory, need; 0: too little to count.

    `gpu_formula` and `host_formula` show how they were reached.
    """

    gpu: int
    host: int
    gpu_formula: str
    host_formula: str


@dataclass(frozen=True)
class Job:
    """A model of `parameters` in a ZeRO stage, on all `gpus` of the job, `own` of them here."""

    parameters: int
    zero: int
    offload: bool
    gpus: int
    own: int


def estimate(job: Job) -> Estimate:
    """Return what a job needs on a node."""
    offload = job.offload and job.zero > 0
    gpu, gpu_formula = _gpu(job, offload)
    host, host_formula = _host(job, offload)
    count = job.parameters
    return Estimate(
        gpu=int(count * gpu),
        host=int(count * host * BUFFERS),
        gpu_formula=f"{shown(count)} x {gpu_formula}",
        host_formula=f"{shown(count)} x {host_formula} x {BUFFERS}",
    )


def shown(count: int) -> str:
    """Return a number of parameters as people write it: 7e9, 3.5e8."""
    digits, _, power = f"{count:.3e}".partition("e")
    return f"{float(digits):g}e{int(power)}"


def _gpu(job: Job, offload: bool) -> tuple[float, str]:
    """Return the bytes for a parameter on each GPU."""
    of = f"{job.gpus} GPUs"
    if offload:
        # The stage 3 has only a layer at a time there.
        return (0, "0 bytes") if job.zero == 3 else (2, "2 bytes")
    if job.zero == 3:
        return 18 / job.gpus, f"18 bytes / {of}"
    if job.zero == 2:
        return 2 + 18 / job.gpus, f"(2 bytes + 18 bytes / {of})"
    if job.zero == 1:
        return 4 + 12 / job.gpus, f"(4 bytes + 12 bytes / {of})"
    return 16, "16 bytes"


def _host(job: Job, offload: bool) -> tuple[float, str]:
    """Return the bytes for a parameter in this node's memory.

    A node has the share of its GPUs. Where each rank loads the model first, that is 4 bytes for
    each of the node's GPUs; DeepSpeed's function for stage 2 takes those of all nodes there.
    """
    share, of = job.own / job.gpus, f"{job.own} of {job.gpus} GPUs"
    if job.zero == 3:
        # With deepspeed.zero.Init no rank loads the whole model.
        return (18 * share, f"18 bytes x {of}") if offload else (0, "0 bytes")
    loading = 4 * job.own
    if offload and 16 * share > loading:
        return 16 * share, f"16 bytes x {of}"
    return loading, f"4 bytes x {job.own} GPUs of the node"
