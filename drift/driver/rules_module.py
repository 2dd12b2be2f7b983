"""Driver rules about the module: it may be loaded, it is, and it fits the library of the driver."""

from collections.abc import Iterator

from gpu_node.drift.driver.boot import bootable, is_urgent
from gpu_node.drift.driver.module import bars, hard_bars, origin, removal, shown, signing_key
from gpu_node.drift.driver.subjects import Initramfs, KernelRelease, LoadedModule
from gpu_node.drift.driver.target import (
    buildable,
    builds,
    has_no_gpu,
    installed,
    is_built,
    running,
    source_of,
    target,
)
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.facts.driver.gpu_holders import jobs
from gpu_node.facts.driver.kernels import Module
from gpu_node.facts.driver.secure_boot import SecureBoot
from gpu_node.facts.driver.state import DriverState
from gpu_node.inventories.wanted import DriverWanted


@check("driver.nouveau")
def nouveau(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    if target(at.here, at.want) is None:
        yield from _before_a_driver(at.here)
        return
    if at.here.nouveau is None or at.here.loaded is None:
        return
    if at.here.loaded.nouveau:
        yield Fault(
            subject=LoadedModule("nouveau", at.here.kernels.running if at.here.kernels else ""),
            found="loaded",
            wanted="not loaded",
            fix="blacklist nouveau, rebuild the initramfs, and unload it; if the console uses "
            "nouveau, reboot: --data reboot=true",
        )
    barred = at.here.nouveau.blacklists or at.here.nouveau.cmdline
    if at.here.nouveau.kernels and not barred:
        yield Fault(
            subject="blacklist",
            found="none",
            wanted="blacklist nouveau in /etc/modprobe.d",
            cause="at boot nouveau takes the GPUs before nvidia does",
            fix="write /etc/modprobe.d/gpu-node-nouveau.conf, and rebuild the initramfs",
            explains="none",  # of now
        )
    may_boot = {each.name for each in bootable(at.here)}
    for name, has in at.here.nouveau.initramfs.items():
        if barred and name in may_boot and has is not False and not at.here.nouveau.cmdline:
            yield Fault(
                subject=Initramfs(name),
                found="holds nouveau" if has else "older than the blacklist, and not readable",
                wanted="made after the blacklist",
                cause="it is from before the blacklist: a boot loads nouveau from it",
                fix=f"rebuild it: update-initramfs -u -k {name}, or dracut -f for {name}",
                fixable=has is True,
                severity=None if has else "warning",
            )


def _before_a_driver(state: DriverState) -> Iterator[Fault]:
    if state.loaded is not None and state.loaded.nouveau:
        yield Fault(
            subject=LoadedModule("nouveau", state.kernels.running if state.kernels else ""),
            found="loaded",
            wanted="not loaded",
            fix="install the driver: the deploy then removes nouveau; if the console uses it, the "
            "node needs a reboot",
            fixable=False,
            severity="warning",
        )


@check("driver.secure-boot")
def secure_boot(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    version, boot = target(at.here, at.want), at.here.secure_boot
    if boot is None or boot.state != "on" or version is None:
        return
    for kernel in bootable(at.here):
        module = kernel.module
        if module is None or not is_urgent(at.here, kernel):
            continue
        signature = _signature(at.here, boot, module)
        if signature is not None:
            yield Fault(
                subject=KernelRelease(kernel.name),
                found=signature,
                wanted="signed with a key that the firmware knows",
                names={"KEY": _key(boot, module) or signing_key(at.here)},
            )


def _signature(state: DriverState, boot: SecureBoot, module: Module) -> str | None:
    """What is wrong with a module's signature; None where the firmware knows its key."""
    if not module.signer:
        return "not signed"
    if any(name in module.signer for name in _DISTRIBUTIONS):
        return None  # the key came with the firmware, or with the shim that it trusts
    key = _key(boot, module)
    is_ours = any(name in module.signer for name in _SIGNERS)
    enrolled = boot.keys[key] if key else boot.enrolled if is_ours else None
    now = running(state)
    if enrolled is None and now and now.module and now.module.signer == module.signer:
        # Secure Boot is on, and what is loaded has that signature.
        enrolled = True if state.loaded and state.loaded.nvidia == now.module.version else None
    if enrolled is None:
        return "signed with a key that may not be enrolled"
    return None if enrolled else "signed with a key that is not enrolled"


# The names that dkms's keys have in a signature, and the folders of the certificates.
_SIGNERS = {"DKMS": "/dkms/", "Secure Boot Module Signature": "/shim-signed/"}


# Who signs modules with a key that the distribution's own shim or kernel has built in.
_DISTRIBUTIONS = (
    *("Canonical", "Debian", "Red Hat", "CentOS", "Rocky", "AlmaLinux", "Oracle", "SUSE", "Amazon"),
)


def _key(boot: SecureBoot, module: Module) -> str | None:
    """The certificate of a module's signature, where it is one of those on the node."""
    folders = [folder for name, folder in _SIGNERS.items() if name in module.signer]
    return next((key for key in boot.keys for folder in folders if folder in key), None)


def _holders(state: DriverState) -> str:
    """Return the jobs that prevent a reload of the module, as text; empty where there are none."""
    return jobs(state.processes or (), "reload")


@check("driver.not-loaded")
def not_loaded(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    version, kernel = target(at.here, at.want), running(at.here)
    if version is None or kernel is None or at.here.loaded is None or at.here.loaded.nvidia:
        return
    # The module loads for no other device: driver.no-gpu, or driver.gpu-differs, is about both.
    if has_no_gpu(at.node) or (at.here.devices and not at.here.own_devices):
        return
    if is_built(kernel, version) or source_of(at.here, version):
        output = at.here.smi.output if at.here.smi else ""
        hard = hard_bars(at.here)
        yield Fault(
            subject=LoadedModule("nvidia", kernel.name),
            found=f"not loaded ({output})" if output else "not loaded",
            wanted=f"{version} loaded",
            also="; ".join(f"{shown(bar)} prevents loading" for bar in bars(at.here)),
            fix=f"{'; '.join(map(removal, hard))}; then: modprobe nvidia"
            if hard
            else "modprobe nvidia"
            if is_built(kernel, version)
            else "modprobe nvidia, once it is built",
            # An admin's line is meant: the deploy never works around it.
            fixable=not hard and (is_built(kernel, version) or builds(at.here, at.want, version)),
        )


@check("driver.library-mismatch")
def library_mismatch(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    if not at.here.loaded or not at.here.loaded.nvidia or not at.here.library:
        return
    loaded, library, kernel = at.here.loaded.nvidia, at.here.library, running(at.here)
    if loaded == library:
        return
    has_source = buildable(at.here, library) is not None
    ready = kernel is not None and is_built(kernel, library)
    holders = _holders(at.here)
    is_there = ready or (has_source and kernel is not None)
    curable = target(at.here, at.want) == library and is_there and not hard_bars(at.here)
    if hard_bars(at.here):
        lines = ", ".join(map(shown, hard_bars(at.here)))
        fix = f"{lines} prevents loading the module: remove it first, then load the module again"
    elif curable:
        fix = "load the module again; no reboot is needed"
        if holders:
            fix = f"end {holders}, then load the module again; the deploy does neither during a job"
    else:
        fix = f"install the driver's dkms package of {library}, or restore the library of {loaded}"
    yield Fault(
        subject=LoadedModule("nvidia", kernel.name if kernel else ""),
        found=f"module {loaded}, library {library}",
        wanted=library,
        fix=fix,
        fixable=curable,
    )


@check("driver.no-signing-key")
def no_signing_key(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    firmware = at.here.secure_boot
    if firmware is None or firmware.state != "on" or firmware.enrolled:
        return
    if not list(secure_boot(at)):
        yield Fault(
            subject="Secure Boot",
            found="on",
            wanted="off, or an enrolled key",
            names={"KEY": signing_key(at.here)},
        )


@check("driver.runfile")
def runfile(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    version = installed(at.here)
    if version is not None and origin(at.here) == ".run" and source_of(at.here, version) is None:
        yield Fault(
            subject="driver",
            found=f"{version}, by NVIDIA's installer",
            wanted="a module that dkms builds",
        )
