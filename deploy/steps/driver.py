"""Driver: a module for the running kernel and for each that may boot, loaded, and kept."""

from __future__ import annotations

from pyinfra.api import deploy

from deploy.operations import driver
from deploy.plan import Plan
from deploy.proof import refuse
from drift.driver import source_of, target
from drift.finding import Severity

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
    version = target(plan.found.driver, plan.wanted.driver)
    if version is None:
        return
    _packages(plan, "error")
    _modules(plan, version, "error")
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


@deploy("Driver, what can wait")
def rest(plan: Plan) -> None:
    """Repair what is a warning, such as a kernel that nobody boots: what fails here fails last."""
    if plan.wanted.driver is None or _is_refused(plan):
        return
    version = target(plan.found.driver, plan.wanted.driver)
    if version is None:
        return
    _packages(plan, "warning")
    _modules(plan, version, "warning")
    # Without the module nobody can tell whether it is on.
    unknown = plan.wanted.driver.persistence and plan.repairs(*_LOADED)
    if unknown or plan.repairs("driver.persistence"):
        driver.persistence(name="Turn persistence mode on", later=plan.reboot)


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


def _packages(plan: Plan, severity: Severity) -> None:
    """Install what is built with: the headers of kernels that the findings of a severity name."""
    manager = plan.found.nccl.manager
    lacking = plan.subjects("driver.headers-missing", severity=severity)
    dkms = bool(plan.subjects("driver.dkms-missing", severity=severity))
    if manager not in (None, "none") and (lacking or dkms):
        what = [*(["dkms"] if dkms else []), *(f"headers of {kernel}" for kernel in lacking)]
        driver.packages(
            name=f"Install {', '.join(what)}", manager=manager, kernels=lacking, dkms=dkms
        )


def _modules(plan: Plan, version: str, severity: Severity) -> None:
    """Build for the kernels that the findings of a severity name, the running one first."""
    found = plan.found.driver
    source = source_of(found, version)
    running = found.kernels.running if found.kernels else ""
    kernels = plan.subjects(*_BUILT, severity=severity)
    kernels.sort(key=lambda kernel: kernel != running)
    for kernel in kernels if source else ():
        driver.module(
            name=f"Build nvidia {version} for {kernel}",
            kernel=kernel,
            version=version,
            source=source.name if source else "",
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
