"""Ports between the nodes: the step that repairs firewalld, and its operations."""

from gpu_node.deploy.engine.plan import Hooks
from gpu_node.deploy.ports.together import tried

HOOKS = Hooks(together=tried)
