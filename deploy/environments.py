"""Python environments alone: copied from the node that has them, so that a run can judge them.

    pyinfra inventories/lab.py deploy/environments.py [--dry] [--limit NODE --limit SOURCE] [-y]

What a copy needs comes first: rsync, and logins from node to node. deploy/gpu_node.py does this as
well; what it then finds wrong in a new environment it tells, and repairs when it is run once more.
"""

from pyinfra import host

from deploy.failures import alone
from deploy.interruption import watch
from deploy.plan import plan
from deploy.proof import prove
from deploy.steps import nccl, ssh, workspace

CHANGE_SECONDS, COPY_SECONDS = 900, 3600
PROVED = ("nccl.environment-missing",)

watch(host.state)
node = plan(host)
if node is not None:
    workspace.programs(plan=node, **alone(host, "rsync", CHANGE_SECONDS))
    if node.has_copies:
        ssh.converge(plan=node, **alone(host, "ssh", CHANGE_SECONDS))
    nccl.environments(plan=node, **alone(host, "environments", COPY_SECONDS, ["rsync", "ssh"]))
    prove(node, PROVED)
