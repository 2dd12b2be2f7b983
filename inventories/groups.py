"""What an inventory file imports."""

from gpu_node.inventories.pyinfra_groups import groups_of as groups_of
