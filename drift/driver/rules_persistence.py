"""Driver rules about persistence mode: it is on, stays so, and systemd has read its unit."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Path
from gpu_node.facts.driver.state import DriverState
from gpu_node.inventories.schema import DriverWanted


@rule(
    "driver.persistence",
    "warning",
    step="driver",
    key="driver.persistence",
    why="the driver releases idle GPUs: each first call takes seconds, and settings (ECC, "
    "clocks, power) are lost",
    manual="nvidia-smi -pm 1, and: systemctl --no-reload enable nvidia-persistenced",
    repair="Enables nvidia-persistenced, or a unit gpu-node-persistence.service, and turns the"
    " mode on.",
    alone="Keep the GPUs open: run nvidia-smi -l 60 >/dev/null in the background.",
)
def persistence(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """Persistence mode is off on a GPU, or will be after the next boot."""
    gpus = state.smi.gpus if state.smi else ()
    off = [gpu.uuid for gpu in gpus if gpu.persistence is False]
    is_on = bool(gpus) and all(gpu.persistence for gpu in gpus)
    if wanted.persistence and is_on and state.loaded and state.loaded.keeps_persistence is False:
        yield Fault(
            subject="persistence mode",
            found="on until the next boot",
            wanted="on",
            cause="no enabled unit, udev rule or start script turns it on: NVIDIA's installer "
            "installs none",
            fix="enable a unit that turns it on: gpu-node-persistence.service",
        )
    if wanted.persistence and off:
        yield Fault(
            subject="persistence mode",
            found=f"off on {len(off)} of {len(gpus)}",
            wanted="on",
            # A reload of systemd takes the GPUs from running containers.
        )


@rule(
    "driver.unit-waits",
    "info",
    key="driver.persistence",
    who="administrator",
    why="a reload of systemd takes the GPUs from running containers ('Failed to initialize "
    "NVML: Unknown Error'): the deploy does not reload while one has GPUs",
    manual="nothing to do: the next boot reads it; to reload now, while no container needs "
    "GPUs, run the deploy with --data allow_disruption=true",
)
def unit_waits(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The deploy wrote a systemd unit, and systemd has not loaded it yet."""
    if not wanted.persistence:
        return
    for file in state.waiting or ():
        yield Fault(
            subject=Path(file),
            found="newer than what systemd has read",
            wanted="in effect from the next boot on",
        )
