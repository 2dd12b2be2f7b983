"""Build tools and Python packages: what is wrong, and what the rules compute with."""

from gpu_node.drift.engine.areas import Hooks

HOOKS = Hooks(of_cpu_nodes=("toolchain.pdsh", "toolchain.build"))
