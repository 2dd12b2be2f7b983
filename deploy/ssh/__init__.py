"""SSH among the nodes: the step that repairs it, and its operations."""

from gpu_node.deploy.engine.plan import Hooks
from gpu_node.deploy.ssh.root import require_root

HOOKS = Hooks(require=require_root)
