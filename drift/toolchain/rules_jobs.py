"""Toolchain rule about jobs: the node's GPUs compute in the number format that the jobs use."""

from collections.abc import Iterator
from typing import NamedTuple

from gpu_node.drift.driver.target import models
from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Gpu
from gpu_node.drift.tables import capability
from gpu_node.facts.node import NodeState
from gpu_node.inventories.wanted import JobsWanted, NodeWanted


class _Need(NamedTuple):
    """The compute capability that a feature needs, what happens without it, and what works."""

    name: str
    least: tuple[int, int]
    happens: str
    works: str
    severity: Severity = "error"


# fp16 has 5 bits of exponent: gradients overflow, and the loss scale falls until it is at its
# minimum (DeepSpeed's DynamicLossScaler).
_FP16 = (
    "fp16 on all nodes, with a dynamic loss scale (DeepSpeed: fp16: {enabled: true, loss_scale: "
    "0}); 'Current loss scale already at minimum' is then a job whose gradients overflow: a lower "
    "learning rate, warm-up and gradient clipping; a model that was trained in bf16 may not be "
    "stable in fp16"
)
# Sources: vllm #946 (bf16), flash_api.cpp of flash-attn 2, TransformerEngine's check_fp8_support,
# torch.backends.cuda.matmul.allow_tf32, which has no effect before Ampere.
_PRECISIONS = {
    "bf16": _Need(
        "bf16",
        (8, 0),
        "'Bfloat16 is only supported on GPUs with compute capability of at least 8.0', or emulated "
        "and slower than fp32: torch.cuda.is_bf16_supported() is true there in new releases",
        _FP16,
    ),
    "tf32": _Need(
        "tf32", (8, 0), "torch computes in fp32 there, several times slower", _FP16, "warning"
    ),
    "fp8": _Need(
        "fp8",
        (8, 9),
        "'Device compute capability 8.9 or higher required for FP8 execution'",
        "bf16 where all GPUs have compute capability 8.0 or more, else fp16",
    ),
}
FLASH = _Need(
    "flash-attn 2",
    (8, 0),
    "'FlashAttention only supports Ampere GPUs or newer'",
    "PyTorch's own attention: attn_implementation='sdpa' (transformers), or "
    "torch.nn.functional.scaled_dot_product_attention; with xformers its memory-efficient kernel",
)


@check("toolchain.precision")
def precision(at: At) -> Iterator[Fault]:
    for model, own in _capabilities(at.node, at.wanted).items():
        for need in lacking(at.wanted.jobs, own) if at.wanted.jobs else ():
            yield Fault(
                subject=Gpu(f"{model}: {need.name}"),
                found=f"compute capability {shown(own)}",
                wanted=f"{shown(need.least)} or more",
                cause=need.happens,
                fix=need.works,
                severity=need.severity,
            )


def lacking(jobs: JobsWanted, own: tuple[int, int]) -> Iterator[_Need]:
    """Yield what the jobs need and a GPU of a compute capability lacks."""
    needs = (_PRECISIONS.get(jobs.precision or ""), FLASH if jobs.flash_attention else None)
    yield from (need for need in needs if need is not None and own < need.least)


def _capabilities(state: NodeState, wanted: NodeWanted) -> dict[str, tuple[int, int]]:
    """Return the compute capability of each GPU model of the node, where it is known."""
    reported = {
        gpu.name: parsed
        for gpu in (state.driver.smi.gpus if state.driver.smi else ())
        if gpu.capability and (parsed := _parsed(gpu.capability))
    }
    known = {model: reported.get(model) or capability(model) for model in models(state, wanted)}
    return {model: own for model, own in known.items() if own is not None}


def _parsed(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def shown(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
