"""The workspace and directories: what the node has."""

from gpu_node.facts.workspace.state import Workspace as Workspace
