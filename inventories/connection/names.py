"""The connector's name, and its key among the data of hosts."""

NAME = "gpu-node"
# The host data with the inventory as typed: a next step names it.
INVENTORY = "gpu_node_inventory"
