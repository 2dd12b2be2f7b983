"""The NVIDIA driver: the step that repairs it, and its operations."""

from gpu_node.deploy.driver.step import changes_node
from gpu_node.deploy.engine.plan import Hooks
from gpu_node.facts.driver.gpu_holders import harmless

HOOKS = Hooks(changes=changes_node, harmless=harmless)
