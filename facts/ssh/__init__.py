"""SSH among the nodes: what the node has."""

from gpu_node.facts.ssh.state import SshMesh as SshMesh
