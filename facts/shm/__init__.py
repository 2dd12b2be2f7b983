"""Shared memory: what the node has."""

from gpu_node.facts.shm.state import SharedMemory as SharedMemory
