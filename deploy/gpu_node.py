"""The whole node, step after step: probe it, repair what the rules find, prove it.

    pyinfra inventories/lab.py deploy/gpu_node.py [--dry] [--limit X] [-y]

A node with nothing to repair gets no operation at all, and is asked only once.
"""

from pyinfra import host

from deploy.interruption import watch
from deploy.plan import plan
from deploy.proof import prove
from deploy.steps import limits, shm, toolchain

watch(host.state)
node = plan(host)
if node is not None:
    shm.converge(plan=node)
    limits.converge(plan=node)
    toolchain.converge(plan=node)
    prove(node)
