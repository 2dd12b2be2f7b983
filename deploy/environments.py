"""Only Python environments: copied from the node that has them, so that a run can judge them.

    pyinfra inventories/lab.py deploy/environments.py [--dry] [--limit NODE --limit SOURCE] [-y]

First come the needs of a copy: rsync, and logins from node to node. deploy/gpu_node.py also does
this; it reports problems in a new environment, and repairs them in its next run.
"""

from pyinfra import host

from gpu_node.deploy.engine.contained import contain, contained
from gpu_node.deploy.engine.failures import alone
from gpu_node.deploy.engine.interruption import watch
from gpu_node.deploy.engine.planning import plan
from gpu_node.deploy.engine.proof import prove
from gpu_node.deploy.nccl import step as nccl
from gpu_node.deploy.ssh import step as ssh
from gpu_node.deploy.workspace import step as workspace
from gpu_node.drift.nccl.rules_environments import environment_missing

CHANGE_SECONDS, COPY_SECONDS = 900, 3600
PROVED = (environment_missing,)

watch(host.state)
contain(host.state)
with contained(host):
    node = plan(host)
    if node is not None:
        is_copied = nccl.has_copies(node)
        workspace.programs(plan=node, **alone(host, "rsync", CHANGE_SECONDS))
        if is_copied:
            ssh.converge(plan=node, **alone(host, "ssh", CHANGE_SECONDS))
        nccl.environments(plan=node, **alone(host, "environments", COPY_SECONDS, ["rsync", "ssh"]))
        prove(node, PROVED, always=is_copied)
