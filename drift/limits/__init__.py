"""Resource limits: what is wrong, and what the rules compute with."""

from gpu_node.drift.engine.areas import Hooks

HOOKS = Hooks(only_named=("limits.files", "limits.pam"))
