"""The PyTorch and the NCCL of a node, in words."""

from collections.abc import Iterator

from gpu_node.drift.engine.shown_facts import Has, value
from gpu_node.facts.node import NodeState

# Its jobs may run in containers.
_NO_TORCH = Has(
    "no PyTorch found", starts=None, lacks="no PyTorch found (nccl.environments can name it)"
)


def kind(node: NodeState, elsewhere: str) -> Iterator[Has]:
    """Yield the environments that could not be asked, and PyTorch and NCCL of the others."""
    absent, old = node.nccl.absent, node.nccl.old_pythons
    if absent:
        several = len(absent) > 1
        does = "do" if several else "does"
        yield Has(f"environment{'s' * several} {' and '.join(absent)} {does} not exist")
    for prefix, python in old.items():
        yield Has(f"environment {prefix} not read (Python {python})")
    if absent or old:
        # As if no one had named them.
        known = node.nccl.environments.items()
        there = {prefix: each for prefix, each in known if prefix not in (*absent, *old)}
        if not there:
            return
        read = node.nccl.model_copy(update={"environments": there})
        node = node.model_copy(update={"nccl": read})
    torch, nccl = (value(name, node) for name in ("nccl.torch", "nccl.loaded"))
    if not node.nccl.environments:
        yield Has(f"PyTorch in {elsewhere} (not read)") if elsewhere else _NO_TORCH
    elif torch is None:
        yield Has("PyTorch unreadable")
    elif torch == "none":
        yield _NO_TORCH
    else:
        yield Has(f"PyTorch {torch}")
        words = "no NCCL" if nccl == "none" else f"NCCL {nccl}"
        yield Has("NCCL unreadable" if nccl is None else words)
