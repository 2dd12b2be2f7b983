"""SSH among the nodes: what is wrong, and what the rules compute with."""

from gpu_node.drift.engine.areas import Hooks
from gpu_node.drift.ssh.sudo import advice_on

HOOKS = Hooks(only_named=("ssh.",), advises=advice_on)
