"""NCCL: what the node has."""

from gpu_node.facts.nccl.state import Nccl as Nccl
