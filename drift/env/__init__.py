"""The environment of a launcher's shell: what is wrong, and what the rules compute with."""

from gpu_node.drift.engine.areas import Hooks
from gpu_node.drift.env.training_user import is_explained

HOOKS = Hooks(explains=is_explained)
