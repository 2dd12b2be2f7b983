"""NCCL: the step that repairs it, and its operations."""

from gpu_node.deploy.engine.plan import Hooks
from gpu_node.facts.nccl.state import ASKED, SUPPLY

# Without settings of the inventory pip installs any wheel, from an index that is proved.
HOOKS = Hooks(given={"asked": ASKED, "supply": SUPPLY, "hashes": "", "insecure": "no"})
