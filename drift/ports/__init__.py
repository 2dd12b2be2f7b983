"""Ports between the nodes: which nodes try them, and what is wrong."""

from gpu_node.drift.engine.areas import Hooks

HOOKS = Hooks(of_cpu_nodes=())
