"""The NVIDIA driver: what is wrong, and what the rules compute with."""

from gpu_node.drift.driver.target import is_absent
from gpu_node.drift.engine.areas import Hooks

# Without a driver there is none that the next boot could lack.
HOOKS = Hooks(
    explains=lambda unread, state: unread.section == "driver.next" and is_absent(state.driver),
    of_cpu_nodes=("driver.gpu-differs", "driver.pci"),
)
