"""Shared memory: /dev/shm gets its size, now and at every boot, and what nobody uses goes."""

from __future__ import annotations

from pyinfra.api import deploy

from deploy.operations import shm
from deploy.plan import Plan
from drift.rules.shm import MODE
from inventories.schema import format_size

ORPHANED = "shm.orphaned-trainer"


@deploy("Shared memory")
def converge(plan: Plan) -> None:
    """Repair what the shm rules found."""
    wanted = plan.wanted.shm
    if wanted is None:
        return
    if plan.repairs("shm.not-persistent"):
        shm.fstab(name="Write /etc/fstab", size=format_size(wanted.size))
    if plan.repairs("shm.too-small"):
        shm.size(name="Remount /dev/shm", size=wanted.size)
    if plan.repairs("shm.permissions"):
        shm.permissions(name="Open /dev/shm to users", mode=MODE)
    pids = [int(each.removeprefix("pid ")) for each in plan.subjects(ORPHANED, severity="warning")]
    if pids:
        shm.trainers(name=f"End orphaned trainers: pid {', '.join(map(str, pids))}", pids=pids)
    # Last: what an orphan had open is left over now.
    if pids or plan.repairs("shm.stale-segments"):
        shm.segments(
            name="Remove segments that nobody uses", allow_disruption=plan.allow_disruption
        )
