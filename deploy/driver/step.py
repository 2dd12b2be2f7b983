"""Driver: a module for the running kernel and for each that may boot, loaded, and preserved."""

from dataclasses import replace

from pyinfra import host
from pyinfra.api import deploy

from gpu_node.deploy.driver import operations as driver
from gpu_node.deploy.engine.failures import apart, whole
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.proof import refuse
from gpu_node.drift.driver import (
    rules,
    rules_driver_packages,
    rules_gpus,
    rules_module,
)
from gpu_node.drift.driver.install_plan import is_full, to_install, with_driver
from gpu_node.drift.driver.subjects import KernelRelease
from gpu_node.drift.driver.target import source_of, survives_boot, target
from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.rule import Rule

_BUILT = (rules.module_not_built, rules.boots_without)
_LOADED = (rules_module.not_loaded, rules_module.library_mismatch)
_LACKING = (rules_driver_packages.not_installed, rules_driver_packages.package_missing)

# Findings that may need a reboot: a module that cannot be unloaded, or a kernel that was removed.
_REBOOTED = (*_LOADED, rules_module.nouveau, rules.module_not_built)
# With an error of one of these rules, the node may have no GPUs after a boot.
_BARRED = (rules_module.secure_boot, rules_gpus.unsupported_gpu)


def changes_node(plan: Plan) -> bool:
    """Whether a run changes a node although nothing is left to repair by a step."""
    return reboots(plan) or reloads(plan)


def reboots(plan: Plan) -> bool:
    """Whether a reboot may help the node, is allowed, and would not lose what works now."""
    if not plan.reboot or plan.wanted.driver is None:
        return False
    version = target(plan.state.driver, plan.wanted.driver)
    barred = any(guard.severity == "error" for guard in plan.guards(*_BARRED))
    if version is None or barred or not survives_boot(plan.state.driver, version):
        return False
    return bool(plan.findings_of(*_REBOOTED))


def reloads(plan: Plan) -> bool:
    """Whether systemd is reloaded for a unit that it has not read, because that is allowed."""
    return plan.allow_disruption and bool(plan.findings_of(RULES["driver.unit-waits"]))


@deploy("Driver")
def converge(plan: Plan) -> None:
    """Repair what the driver rules found; do nothing if the driver supports no GPU here."""
    wanted = plan.wanted.driver
    if wanted is None:
        return
    if _is_refused(plan):
        unfit = plan.guards(rules_gpus.unsupported_gpu)
        findings = tuple(dict.fromkeys((*plan.findings, *unfit)))
        refuse(name="Stop: this driver does not support these GPUs", findings=findings)
        return
    plan = _with_driver(plan)
    version = target(plan.state.driver, wanted)
    if version is None and not plan.repairs(*_LACKING):
        return
    # Before any build: a build may fail, and the node must still boot.
    for kernel in plan.subjects(KernelRelease, rules.kernel_hold, severity="error"):
        driver.hold_kernel(name="Boot the newest kernel that has the module", kernel=kernel.kernel)
    _dkms(plan, "error")
    _install(plan)
    if version is None:
        return
    _kernels(plan, version, "error")
    # A build that failed for another kernel does not keep the running one's module from loading.
    with apart(host, _running(plan)):
        _load(plan, version)


def _load(plan: Plan, version: str) -> None:
    if plan.repairs(rules_module.nouveau):
        driver.no_nouveau(
            name="Disable nouveau",
            kernels=_stale(plan),
            allow_disruption=plan.allow_disruption,
            later=reboots(plan),
        )
    if plan.repairs(*_LOADED):
        driver.loaded(
            name=f"Load nvidia {version}",
            version=version,
            allow_disruption=plan.allow_disruption,
            later=reboots(plan),
        )


@deploy("Driver, what can wait")
def rest(plan: Plan) -> None:
    """Repair warnings, such as a kernel that is not booted. It runs last."""
    wanted = plan.wanted.driver
    if wanted is None or _is_refused(plan):
        return
    plan = _with_driver(plan)
    version = target(plan.state.driver, wanted)
    if version is None:
        return
    # Without the module it is unknown whether persistence mode is on.
    unknown = wanted.persistence and plan.repairs(*_LOADED)
    if unknown or plan.repairs(rules_gpus.persistence) or reloads(plan):
        driver.persistence(
            name="Turn persistence mode on",
            later=reboots(plan),
            allow_disruption=plan.allow_disruption,
        )
    _dkms(plan, "warning")
    _kernels(plan, version, "warning")
    # The kernel that then boots has its module now.
    if plan.repairs(rules.kernel_hold, severity="warning"):
        with whole(host):
            driver.hold_kernel(name="Release the held kernel")


@deploy("Restart")
def restart(plan: Plan) -> None:
    """Reboot the node if its driver needs it and reboots are allowed."""
    plan = _with_driver(plan)
    version = target(plan.state.driver, plan.wanted.driver) if plan.wanted.driver else None
    if reboots(plan) and version is not None and not _is_refused(plan):
        driver.reboot(
            name="Reboot, one node at a time, where the driver still needs it",
            version=version,
            user=plan.trainer,
            drain=plan.wanted.drain or "",
            resume=plan.wanted.resume or "",
            allow_disruption=plan.allow_disruption,
            _serial=True,
        )


def _is_refused(plan: Plan) -> bool:
    """Whether the wanted or installed driver does not support a GPU of the node."""
    unfit = plan.guards(rules_gpus.unsupported_gpu)
    return any(each.severity == "error" for each in unfit)


def _with_driver(plan: Plan) -> Plan:
    """Return the plan for a bare node as it will be once its driver's packages are installed.

    What they then need (dkms, headers, the module and its loading) is in the same run. For a branch
    the installed version is unknown before.
    """
    wanted = plan.wanted.driver
    if wanted is None or wanted.version is None or not is_full(wanted.version):
        return plan
    if not plan.repairs(rules_driver_packages.not_installed):
        return plan
    state = with_driver(plan.state, to_install(plan.state, wanted), wanted.version)
    first = plan.findings_of(rules_driver_packages.not_installed)
    return replace(plan, state=state, findings=(*first, *check(state, plan.wanted, plan.nodes)))


def _install(plan: Plan) -> None:
    wanted, manager = plan.wanted.driver, plan.state.nccl.manager
    if wanted is None or wanted.version is None or not plan.repairs(*_LACKING):
        return
    if manager not in (None, "none"):
        names = to_install(plan.state, wanted)
        driver.install(
            name=f"Install {', '.join(names)} {wanted.version}",
            manager=manager,
            names=names,
            version=wanted.version,
            hold=is_full(wanted.version),
            allow_disruption=plan.allow_disruption,
        )


def _dkms(plan: Plan, severity: Severity) -> None:
    manager = plan.state.nccl.manager
    if manager not in (None, "none") and plan.repairs(rules.dkms_missing, severity=severity):
        driver.packages(
            name="Install dkms",
            manager=manager,
            dkms=True,
            allow_disruption=plan.allow_disruption,
        )


def _running(plan: Plan) -> str:
    return plan.state.driver.kernels.running if plan.state.driver.kernels else ""


def _kernels(plan: Plan, version: str, severity: Severity) -> None:
    """Install headers and module for the kernels of a severity's findings, the running one first.

    If one fails, the others go on: its headers may not be available.
    """
    running = _running(plan)
    source, manager = source_of(plan.state.driver, version), plan.state.nccl.manager
    lacking = _releases(plan, severity, rules.headers_missing)
    bare = _releases(plan, severity, *_BUILT)
    for kernel in sorted(dict.fromkeys([*lacking, *bare]), key=lambda each: each != running):
        with apart(host, kernel):
            if kernel in lacking and manager not in (None, "none"):
                driver.packages(
                    name=f"Install the headers of {kernel}",
                    manager=manager,
                    kernels=[kernel],
                    allow_disruption=plan.allow_disruption,
                )
            if kernel in bare and source is not None:
                driver.module(
                    name=f"Build nvidia {version} for {kernel}",
                    kernel=kernel,
                    version=version,
                    source=source.name,
                    allow_disruption=plan.allow_disruption,
                )


def _releases(plan: Plan, severity: Severity, *lacking: Rule) -> list[str]:
    """Return the kernels of a severity's findings."""
    return [subject.kernel for subject in plan.subjects(KernelRelease, *lacking, severity=severity)]


def _stale(plan: Plan) -> list[str]:
    """Return the kernels whose initramfs is, or will be, older than the blacklist."""
    nouveau, kernels = plan.state.driver.nouveau, plan.state.driver.kernels
    if nouveau is None or kernels is None:
        return []
    images = {each.name for each in kernels.installed if each.image}
    barred = nouveau.blacklists or nouveau.cmdline
    return [
        kernel
        for kernel, holds in nouveau.initramfs.items()
        if kernel in images and (holds or not barred)
    ]
