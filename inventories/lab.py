"""The nodes of the lab for pyinfra, from lab.yml beside this file; copy both for your cluster."""

from gpu_node.inventories.groups import groups_of

globals().update(groups_of(__file__))
