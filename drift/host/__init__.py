"""The node as a machine: what is wrong, and what the rules compute with."""

from gpu_node.drift.engine.areas import Hooks
from gpu_node.drift.host.machine import is_container

HOOKS = Hooks(is_contained=is_container)
