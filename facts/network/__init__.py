"""The network between the nodes: what the node has."""

from gpu_node.facts.network.state import Network as Network
