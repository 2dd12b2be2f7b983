"""Resource limits: the step that repairs it, and its operations."""

from gpu_node.deploy.engine.plan import Hooks
from gpu_node.deploy.files.confirm import settle

HOOKS = Hooks(settle=lambda host, state: settle(host, state.limits.unsettled or ()))
