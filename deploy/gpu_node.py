"""The whole node, step by step: probe it, repair what the rules find, prove it.

    pyinfra inventories/lab.py deploy/gpu_node.py [--dry] [--limit X] [-y]
        [--data areas=ssh,shm] [--data change=v100-01]

A node with nothing to repair gets no operation, and is asked only once.
"""

from pyinfra import host

from gpu_node.deploy.driver import reboot as restart
from gpu_node.deploy.driver import step as driver
from gpu_node.deploy.engine.contained import contain, contained
from gpu_node.deploy.engine.failures import alone
from gpu_node.deploy.engine.interruption import watch
from gpu_node.deploy.engine.planning import plan
from gpu_node.deploy.engine.proof import prove
from gpu_node.deploy.engine.summary import announce
from gpu_node.deploy.env import step as env
from gpu_node.deploy.host import step as host_settings
from gpu_node.deploy.limits import step as limits
from gpu_node.deploy.nccl import step as nccl
from gpu_node.deploy.network import step as network
from gpu_node.deploy.ports import step as ports
from gpu_node.deploy.restore import console
from gpu_node.deploy.shm import step as shm
from gpu_node.deploy.ssh import step as ssh
from gpu_node.deploy.toolchain import step as toolchain
from gpu_node.deploy.workspace import step as workspace

# How long a node that hangs may delay the others: a change waits for the end of another run's, and
# a release may be downloaded over a slow line.
CHANGE_SECONDS, DOWNLOAD_SECONDS = 900, 3600

watch(host.state)
contain(host.state)
with contained(host):
    node = plan(host)
    announce(host.state)
    if node is not None:
        console.converge(plan=node, _ignore_errors=True, _timeout=CHANGE_SECONDS)
        driver.converge(plan=node, **alone(host, "driver", DOWNLOAD_SECONDS))
        workspace.programs(plan=node, **alone(host, "rsync", CHANGE_SECONDS))
        ssh.converge(plan=node, **alone(host, "ssh", CHANGE_SECONDS))
        shm.converge(plan=node, **alone(host, "shm", CHANGE_SECONDS))
        host_settings.converge(plan=node, **alone(host, "host", CHANGE_SECONDS))
        limits.converge(plan=node, **alone(host, "limits", CHANGE_SECONDS))
        network.converge(plan=node, **alone(host, "network", CHANGE_SECONDS))
        ports.converge(plan=node, **alone(host, "ports", CHANGE_SECONDS))
        env.converge(plan=node, **alone(host, "env", CHANGE_SECONDS))
        toolchain.converge(plan=node, **alone(host, "toolchain", DOWNLOAD_SECONDS))
        nccl.environments(
            plan=node, **alone(host, "environments", DOWNLOAD_SECONDS, after=["rsync", "ssh"])
        )
        nccl.converge(plan=node, **alone(host, "nccl", DOWNLOAD_SECONDS))
        workspace.converge(
            plan=node, **alone(host, "workspace", DOWNLOAD_SECONDS, after=["rsync", "ssh"])
        )
        driver.rest(
            plan=node, **alone(host, "driver, what can wait", DOWNLOAD_SECONDS, after=["driver"])
        )
        console.tidy(plan=node, _ignore_errors=True, _timeout=CHANGE_SECONDS)
        driver.restart(plan=node, **alone(host, "reboot", restart.LIMIT_SECONDS, after=["driver"]))
        prove(node)
