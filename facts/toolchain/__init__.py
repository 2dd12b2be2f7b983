"""Build tools and Python packages: what the node has."""

from gpu_node.facts.toolchain.state import Toolchain as Toolchain
