"""The driver rule about persistence mode: it is on, and stays so."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.facts.driver.state import DriverState
from gpu_node.inventories.wanted import DriverWanted


@check("driver.persistence")
def persistence(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    gpus = at.here.smi.gpus if at.here.smi else ()
    off = [gpu.uuid for gpu in gpus if gpu.persistence is False]
    is_on = bool(gpus) and all(gpu.persistence for gpu in gpus)
    if (
        at.want.persistence
        and is_on
        and at.here.loaded
        and at.here.loaded.keeps_persistence is False
    ):
        yield Fault(
            subject="persistence mode",
            found="on until the next boot",
            wanted="on",
            cause="no enabled unit, udev rule or start script turns it on: NVIDIA's installer "
            "installs none",
            fix="enable a unit that turns it on: gpu-node-persistence.service",
        )
    if at.want.persistence and off:
        yield Fault(
            subject="persistence mode",
            found=f"off on {len(off)} of {len(gpus)}",
            wanted="on",
            # A reload of systemd takes the GPUs from running containers.
        )
