"""Shared memory: /dev/shm gets its size, now and at every boot, and unused segments are removed."""

from pyinfra import host
from pyinfra.api import deploy

from gpu_node.deploy.engine.failures import apart
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.files import operations as files
from gpu_node.deploy.shm import operations as shm
from gpu_node.drift.engine.subject import Path, Pid
from gpu_node.drift.shm import rules, rules_docker, rules_ipc, rules_segments
from gpu_node.drift.shm.daemon_json import SHM, ULIMITS
from gpu_node.facts.shm.ipc import OWN_FILE
from gpu_node.inventories.fields.sizes import format_size

KEEP_SEGMENTS = """\
# Written by gpu-node: a job keeps its segments in /dev/shm when its user logs out.
[Login]
RemoveIPC=no
"""


@deploy("Shared memory")
def converge(plan: Plan) -> None:
    """Repair what the shm rules found."""
    _containers(plan)
    wanted = plan.wanted.shm
    if wanted is None:
        return
    if plan.repairs(rules.not_persistent):
        with apart(host, "/etc/fstab"):
            shm.fstab(name="Write /etc/fstab", size=wanted.size)
    if plan.repairs(rules.too_small):
        with apart(host, "/dev/shm"):
            shm.size(name="Remount /dev/shm", size=wanted.size)
    if plan.repairs(rules.permissions):
        with apart(host, "/dev/shm"):
            shm.permissions(name="Open /dev/shm to users", mode=rules.MODE)
    if plan.repairs(rules_ipc.remove_ipc):
        with apart(host, OWN_FILE):
            files.write(name=f"Write {OWN_FILE}", path=OWN_FILE, content=KEEP_SEGMENTS)
    with apart(host, "segments"):
        _segments(plan)


def _segments(plan: Plan) -> None:
    pids = [subject.pid for subject in plan.subjects(Pid, rules_segments.orphaned_trainer)]
    if pids:
        shm.trainers(name=f"End orphaned trainers: pid {', '.join(map(str, pids))}", pids=pids)
    # Last: files that an orphan had open are unused now.
    if pids or plan.repairs(rules_segments.stale_segments):
        shm.segments(name="Remove unused segments", allow_disruption=plan.allow_disruption)


def _containers(plan: Plan) -> None:
    """Write what docker gives to containers by default into its daemon.json, and reload it."""
    wanted, docker = plan.wanted.docker, plan.state.shm.docker
    paths = {subject.path for subject in plan.subjects(Path, rules_docker.docker_default)}
    for daemon in docker.daemons if docker else ():
        if wanted is None or daemon.path not in paths or daemon.pid is None:
            continue
        with apart(host, daemon.path):
            shm.docker(
                name=f"Write {daemon.path}",
                path=daemon.path,
                pid=daemon.pid,
                shm_size=format_size(wanted.default_shm_size)
                if wanted.default_shm_size and not rules_docker.conflict(daemon, SHM)
                else "",
                ulimits={}
                if rules_docker.conflict(daemon, ULIMITS)
                else rules_docker.wanted_ulimits(plan.wanted),
            )
