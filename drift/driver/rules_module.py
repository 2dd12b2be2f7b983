"""Driver rules about the module: it may be loaded, it is, and it fits the library of the driver."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.driver.boot import bootable, is_urgent
from gpu_node.drift.driver.module import bars, hard_bars, origin, removal, shown, signing_key
from gpu_node.drift.driver.rules import module_not_built
from gpu_node.drift.driver.subjects import Initramfs, KernelRelease, LoadedModule
from gpu_node.drift.driver.target import (
    buildable,
    builds,
    installed,
    is_built,
    running,
    source_of,
    target,
)
from gpu_node.drift.engine.rule import Fault, on_subject, rule
from gpu_node.facts.driver.gpu_holders import jobs
from gpu_node.facts.driver.kernels import Module
from gpu_node.facts.driver.secure_boot import SecureBoot
from gpu_node.facts.driver.state import DriverState
from gpu_node.inventories.schema import DriverWanted


@rule(
    "driver.nouveau",
    ("error", "warning"),
    step="driver",
    always=True,
    why="nouveau holds the GPUs, so the nvidia module finds none",
    manual="blacklist nouveau in /etc/modprobe.d, rebuild the initramfs, unload nouveau, or reboot",
    repair="Writes /etc/modprobe.d/gpu-node-nouveau.conf, rebuilds initramfs files, and "
    "unloads nouveau. With --data reboot=true the node reboots if the console uses it.",
    alone="Leave the node out of the job.",
)
def nouveau(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """nouveau has the GPUs, or takes them at the next boot before nvidia does."""
    if target(state, wanted) is None:
        yield from _before_a_driver(state)
        return
    if state.nouveau is None or state.loaded is None:
        return
    if state.loaded.nouveau:
        yield Fault(
            subject=LoadedModule("nouveau", state.kernels.running if state.kernels else ""),
            found="loaded",
            wanted="not loaded",
            fix="blacklist nouveau, rebuild the initramfs, and unload it; if the console uses "
            "nouveau, reboot: --data reboot=true",
        )
    barred = state.nouveau.blacklists or state.nouveau.cmdline
    if state.nouveau.kernels and not barred:
        yield Fault(
            subject="blacklist",
            found="none",
            wanted="blacklist nouveau in /etc/modprobe.d",
            cause="at boot nouveau takes the GPUs before nvidia does",
            fix="write /etc/modprobe.d/gpu-node-nouveau.conf, and rebuild the initramfs",
        )
    may_boot = {each.name for each in bootable(state)}
    for name, has in state.nouveau.initramfs.items():
        if barred and name in may_boot and has is not False and not state.nouveau.cmdline:
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
            cause="it holds the GPUs, so the nvidia module finds none",
            fix="install the driver: the deploy then removes nouveau; if the console uses it, the "
            "node needs a reboot",
            fixable=False,
            severity="warning",
        )


@rule(
    "driver.secure-boot",
    "error",
    always=True,
    why="the kernel refuses an unsigned module, or one signed with an unknown key: 'Key was "
    "rejected by service'",
    manual="run mokutil --import KEY and confirm it at the console during a boot, or turn "
    "Secure Boot off",
    alone="Leave the node out of the job.",
)
def secure_boot(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """Secure Boot is on, and a kernel's nvidia module is not signed, or with an unknown key."""
    version, boot = target(state, wanted), state.secure_boot
    if boot is None or boot.state != "on" or version is None:
        return
    for kernel in bootable(state):
        module = kernel.module
        if module is None or not is_urgent(state, kernel):
            continue
        signature = _signature(state, boot, module)
        if signature is not None:
            yield Fault(
                subject=KernelRelease(kernel.name),
                found=signature,
                wanted="signed with a key that the firmware knows",
                fix=f"mokutil --import {_key(boot, module) or signing_key(state)}, and confirm it "
                "at the console during a boot"
                + ("" if module.signer else "; then build again")
                + "; or turn Secure Boot off in the firmware",
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


@rule(
    "driver.not-loaded",
    "error",
    step="driver",
    because_of=(on_subject(module_not_built), on_subject(secure_boot), on_subject(nouveau)),
    always=True,
    stops="every",
    why="there are no GPUs until the module is loaded",
    manual="run modprobe nvidia",
    repair="Loads the module. With --data reboot=true the node reboots where loading fails.",
    alone="Leave the node out of the job.",
)
def not_loaded(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The running kernel has the module, and it is not loaded."""
    version, kernel = target(state, wanted), running(state)
    if version is None or kernel is None or state.loaded is None or state.loaded.nvidia:
        return
    if is_built(kernel, version) or source_of(state, version):
        output = state.smi.output if state.smi else ""
        hard = hard_bars(state)
        causes = [f"{shown(bar)} prevents loading" for bar in bars(state)]
        yield Fault(
            subject=LoadedModule("nvidia", kernel.name),
            found=f"not loaded ({output})" if output else "not loaded",
            wanted=f"{version} loaded",
            cause="; ".join([*causes, "there are no GPUs until it is loaded"]),
            fix=f"{'; '.join(map(removal, hard))}; then: modprobe nvidia"
            if hard
            else "modprobe nvidia"
            if is_built(kernel, version)
            else "modprobe nvidia, once it is built",
            # An admin's line is meant: the deploy never works around it.
            fixable=not hard and (is_built(kernel, version) or builds(state, wanted, version)),
        )


@rule(
    "driver.library-mismatch",
    "error",
    step="driver",
    always=True,
    stops="every",
    why="'Failed to initialize NVML: Driver/library version mismatch': the packages were "
    "updated while the old module stayed loaded",
    manual="end all GPU processes, then load the module again (modprobe -r, modprobe nvidia), "
    "or reboot",
    repair="Unloads and loads the module while no process uses the GPUs. With --data "
    "reboot=true the node reboots where that fails.",
    alone="Leave the node out of the job.",
)
def library_mismatch(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The loaded module is not of the version of the user-space library."""
    if not state.loaded or not state.loaded.nvidia or not state.library:
        return
    loaded, library, kernel = state.loaded.nvidia, state.library, running(state)
    if loaded == library:
        return
    has_source = buildable(state, library) is not None
    ready = kernel is not None and is_built(kernel, library)
    holders = _holders(state)
    is_there = ready or (has_source and kernel is not None)
    curable = target(state, wanted) == library and is_there and not hard_bars(state)
    if hard_bars(state):
        lines = ", ".join(map(shown, hard_bars(state)))
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


@rule(
    "driver.no-signing-key",
    "warning",
    newcomers=True,
    why="the kernel loads a module that dkms builds only where it is signed with a key that the "
    "firmware knows",
    manual="run mokutil --import KEY and confirm it at the console during a boot, or turn Secure "
    "Boot off",
)
def no_signing_key(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """Secure Boot is on, and the firmware knows no key that dkms could sign with."""
    firmware = state.secure_boot
    if firmware is None or firmware.state != "on" or firmware.enrolled:
        return
    if not list(secure_boot(state, wanted)):
        yield Fault(
            subject="Secure Boot",
            found="on",
            wanted="off, or an enrolled key",
            fix=f"mokutil --import {signing_key(state)}, and confirm it at the console during a "
            "boot; or turn Secure Boot off in the firmware",
        )


@rule(
    "driver.runfile",
    "warning",
    always=True,
    why="NVIDIA's installer ran without --dkms, so dkms cannot manage it: the next kernel has no "
    "module, and the GPUs are lost when it boots",
    manual="run the installer of this version again with --dkms; or run nvidia-uninstall, and "
    "install the driver's dkms package",
    alone="While nvidia-smi works, jobs run. Ask the admin not to update the kernel before the "
    "repair.",
)
def runfile(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The module is from NVIDIA's installer, which ran without --dkms."""
    version = installed(state)
    if version is not None and origin(state) == ".run" and source_of(state, version) is None:
        yield Fault(
            subject="driver",
            found=f"{version}, by NVIDIA's installer",
            wanted="a module that dkms builds",
        )
