"""Shared memory: /dev/shm gets its size, now and at every boot, and its permissions."""

from __future__ import annotations

from pyinfra.api import deploy

from deploy.operations import shm
from deploy.plan import Plan
from drift.rules.shm import MODE
from inventories.schema import format_size


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
