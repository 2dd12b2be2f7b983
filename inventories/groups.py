"""What an inventory file imports; in the root of the repository as `inventories.groups`, too."""

from gpu_node.inventories.pyinfra_groups import groups_of as groups_of
