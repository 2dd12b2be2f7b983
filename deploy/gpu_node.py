"""The whole node, step after step: probe it, repair what the rules find, prove it.

    pyinfra inventories/lab.py deploy/gpu_node.py [--dry] [--limit X] [-y]
        [--data areas=ssh,shm] [--data change=v100-01]

A node with nothing to repair gets no operation at all, and is asked only once.
"""

from pyinfra import host

from deploy import restart
from deploy.failures import alone
from deploy.interruption import watch
from deploy.part import part_of
from deploy.peers import tell_apart
from deploy.plan import plan
from deploy.proof import prove
from deploy.steps import driver, env, limits, nccl, network, shm, ssh, toolchain, workspace

# How long a node that hangs may hold up the others: a change waits for another run's to end, and a
# release may come over a thin line.
CHANGE_SECONDS, DOWNLOAD_SECONDS = 900, 3600

watch(host.state)
node = plan(host)
if node is not None:
    if part_of(host).has("nccl"):
        tell_apart(host.state)
    driver.converge(plan=node, **alone(host, "driver", DOWNLOAD_SECONDS))
    workspace.programs(plan=node, **alone(host, "rsync", CHANGE_SECONDS))
    ssh.converge(plan=node, **alone(host, "ssh", CHANGE_SECONDS))
    shm.converge(plan=node, **alone(host, "shm", CHANGE_SECONDS))
    limits.converge(plan=node, **alone(host, "limits", CHANGE_SECONDS))
    network.converge(plan=node, **alone(host, "network", CHANGE_SECONDS))
    env.converge(plan=node, **alone(host, "env", CHANGE_SECONDS))
    toolchain.converge(plan=node, **alone(host, "toolchain", DOWNLOAD_SECONDS))
    nccl.environments(
        plan=node, **alone(host, "environments", DOWNLOAD_SECONDS, after=["rsync", "ssh"])
    )
    nccl.converge(plan=node, **alone(host, "nccl", DOWNLOAD_SECONDS, after=["environments"]))
    workspace.converge(
        plan=node, **alone(host, "workspace", DOWNLOAD_SECONDS, after=["rsync", "ssh"])
    )
    driver.rest(
        plan=node, **alone(host, "driver, what can wait", DOWNLOAD_SECONDS, after=["driver"])
    )
    driver.restart(plan=node, **alone(host, "reboot", restart.LIMIT_SECONDS, after=["driver"]))
    prove(node)
