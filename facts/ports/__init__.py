"""Ports between the nodes: what filters packets on a node, and which connections were tried."""

from gpu_node.facts.ports.state import Ports as Ports
