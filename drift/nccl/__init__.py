"""NCCL: what is wrong, and what the rules compute with."""

from gpu_node.drift.engine.areas import Hooks

HOOKS = Hooks(
    key="nccl.environments",
    # An environment that the probe has found without the inventory.
    of_cpu_nodes=(),
    is_unnamed=lambda about, state: getattr(about, "environment", None) in state.nccl.discovered,
)
