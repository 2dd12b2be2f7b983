"""Driver: a module for the running kernel and for each that may boot, loaded, and kept."""

from __future__ import annotations

from pyinfra.api import deploy

from deploy.operations import driver
from deploy.plan import Plan
from deploy.proof import refuse
from drift.boot import next_boot
from drift.driver import source_of, target
from facts.driver import DriverState

_BUILT = ("driver.module-not-built", "driver.next-boot")
_LOADED = ("driver.not-loaded", "driver.library-mismatch")


@deploy("Driver")
def converge(plan: Plan) -> None:
    """Repair what the driver rules found; with a driver that drives no GPU here, do nothing."""
    if plan.wanted.driver is None:
        return
    if _is_refused(plan):
        refuse(name="Stop: the wanted driver is none for these GPUs", findings=plan.findings)
        return
    found, version = plan.found.driver, target(plan.found.driver, plan.wanted.driver)
    if version is None:
        return
    _packages(plan)
    _modules(plan, found, version)
    if plan.repairs("driver.nouveau"):
        driver.no_nouveau(
            name="Keep nouveau away",
            kernels=_stale(plan),
            allow_disruption=plan.allow_disruption,
            later=plan.reboot,
        )
    if plan.repairs(*_LOADED):
        driver.loaded(
            name=f"Load nvidia {version}",
            version=version,
            allow_disruption=plan.allow_disruption,
            later=plan.reboot,
        )
    # Without the module nobody can tell whether it is on.
    unknown = plan.wanted.driver.persistence and plan.repairs(*_LOADED) and not plan.reboot
    if unknown or plan.repairs("driver.persistence"):
        driver.persistence(name="Turn persistence mode on")


@deploy("Restart")
def restart(plan: Plan) -> None:
    """Reboot the node where its driver needs it, when that was asked for."""
    version = target(plan.found.driver, plan.wanted.driver) if plan.wanted.driver else None
    if plan.reboots and version is not None and not _is_refused(plan):
        driver.reboot(
            name="Reboot, one node at a time, where the driver still needs it",
            version=version,
            allow_disruption=plan.allow_disruption,
            _serial=True,
        )


def _is_refused(plan: Plan) -> bool:
    """Whether the driver that the inventory wants leaves a GPU of the node alone."""
    unfit = [each for each in plan.findings if each.rule == "driver.unsupported-gpu"]
    return any(each.severity == "error" and each.found.endswith(" wanted") for each in unfit)


def _packages(plan: Plan) -> None:
    manager = plan.found.nccl.manager
    lacking = plan.subjects("driver.headers-missing")
    dkms = plan.repairs("driver.dkms-missing")
    if manager not in (None, "none") and (lacking or dkms):
        what = [*(["dkms"] if dkms else []), *(f"headers of {kernel}" for kernel in lacking)]
        driver.packages(
            name=f"Install {', '.join(what)}", manager=manager, kernels=lacking, dkms=dkms
        )


def _modules(plan: Plan, found: DriverState, version: str) -> None:
    """Build for the kernels that have no module: the running one first, then the next."""
    source = source_of(found, version)
    running = found.kernels.running if found.kernels else ""
    following = next_boot(found).kernel
    kernels = plan.subjects(*_BUILT)
    kernels.sort(key=lambda kernel: (kernel != running, kernel != following))
    if source is None:
        return
    for kernel in kernels:
        driver.module(
            name=f"Build nvidia {version} for {kernel}",
            kernel=kernel,
            version=version,
            source=source.name,
        )


def _stale(plan: Plan) -> list[str]:
    """Return the kernels whose initramfs is older than the blacklist, or will be."""
    nouveau, kernels = plan.found.driver.nouveau, plan.found.driver.kernels
    if nouveau is None or kernels is None:
        return []
    images = {each.name for each in kernels.installed if each.image}
    barred = nouveau.blacklists or nouveau.cmdline
    return [
        kernel
        for kernel, holds in nouveau.initramfs.items()
        if kernel in images and (holds or not barred)
    ]
