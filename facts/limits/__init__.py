"""Resource limits: what the node has."""

from gpu_node.facts.limits.state import ResourceLimits as ResourceLimits
