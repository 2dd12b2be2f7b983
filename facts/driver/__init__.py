"""The NVIDIA driver: what the node has."""

from gpu_node.facts.driver.state import Driver as Driver
