"""The environment of a launcher's shell: what the node has."""

from gpu_node.facts.env.state import Env as Env
