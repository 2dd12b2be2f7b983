"""Driver rules about what takes the GPUs away: nouveau, Secure Boot, updates by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_node.drift.driver.boot import bootable, is_urgent, menu_entry, next_boot
from gpu_node.drift.driver.module import signing_key
from gpu_node.drift.driver.target import kernel_to_hold, running, target
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Initramfs, KernelRelease, LoadedModule
from gpu_node.facts.driver.kernels import Module
from gpu_node.facts.driver.secure_boot import SecureBoot
from gpu_node.facts.driver.state import UPDATED, DriverState, Updates
from gpu_node.facts.probe.globs import matches_any
from gpu_node.inventories.schema import DriverWanted


@rule(
    "driver.nouveau",
    ("error", "warning"),
    step="driver",
    always=True,
    why="nouveau holds the GPUs, so the nvidia module finds none.",
    manual="Blacklist nouveau in /etc/modprobe.d, rebuild the initramfs, unload nouveau, or "
    "reboot.",
    repair="Writes /etc/modprobe.d/gpu-node-nouveau.conf, rebuilds initramfs files, and "
    "unloads nouveau. With --data reboot=true the node reboots if the console uses it.",
    alone="Leave the node out of the job.",
)
def nouveau(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """nouveau has the GPUs, or takes them at the next boot before nvidia does."""
    if found.nouveau is None or found.loaded is None or target(found, wanted) is None:
        return
    if found.loaded.nouveau:
        yield Fault(
            subject=LoadedModule("nouveau", found.kernels.running if found.kernels else ""),
            found="loaded",
            wanted="not loaded",
            cause="it holds the GPUs, so the nvidia module finds none",
            fix="blacklist nouveau, rebuild the initramfs, and unload it; if the console uses "
            "nouveau, reboot: --data reboot=true",
        )
    barred = found.nouveau.blacklists or found.nouveau.cmdline
    if found.nouveau.kernels and not barred:
        yield Fault(
            subject="blacklist",
            found="none",
            wanted="blacklist nouveau in /etc/modprobe.d",
            cause="at boot nouveau takes the GPUs before nvidia does",
            fix="write /etc/modprobe.d/gpu-node-nouveau.conf, and rebuild the initramfs",
        )
    may_boot = {each.name for each in bootable(found)}
    for name, has in found.nouveau.initramfs.items():
        if barred and name in may_boot and has is not False and not found.nouveau.cmdline:
            yield Fault(
                subject=Initramfs(name),
                found="holds nouveau" if has else "older than the blacklist, and not readable",
                wanted="made after the blacklist",
                cause="it is from before the blacklist: a boot loads nouveau from it",
                fix=f"rebuild it: update-initramfs -u -k {name}, or dracut -f for {name}",
                fixable=has is True,
                severity=None if has else "warning",
            )


@rule(
    "driver.kernel-hold",
    ("error", "warning"),
    step="driver",
    key="driver",
    why="Without the hold the next boot may choose a kernel without the module.",
    manual="Run grubby --set-default=/boot/vmlinuz-KERNEL, or set GRUB_DEFAULT and run update-"
    "grub.",
    repair="Changes the default kernel of the boot loader, or restores the default from before"
    " the hold.",
    alone="While nvidia-smi works, jobs run. Ask the admin not to reboot the node before "
    "the repair.",
)
def kernel_hold(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The newest kernel with the module is not the held default, or is held and should not be."""
    version, boot = target(found, wanted), found.boot
    if boot is None or (version is None and wanted.hold_kernel):
        return
    kernel = kernel_to_hold(found, wanted, version) if version else None
    if not wanted.hold_kernel and boot.held:
        yield Fault(
            subject=KernelRelease(boot.held),
            found="held as the default kernel",
            wanted="no hold",
            cause="the inventory no longer wants the hold: newer kernels never boot",
            fix="remove the hold: the earlier default kernel is the default again",
            severity="warning",
        )
    chosen = next_boot(found).kernel
    if kernel is None or (boot.held == kernel.name and chosen in (None, kernel.name)):
        return  # that the next boot is unknown has a finding where it matters
    possible = bool(boot.grubby or menu_entry(boot, kernel.name))
    yield Fault(
        subject=KernelRelease(kernel.name),
        found=f"{chosen or 'an unknown kernel'} boots next",
        wanted=f"{kernel.name} is the default, and held",
        cause="driver: {hold_kernel: true} keeps the newest kernel that has the module the default",
        fix=f"grubby --set-default=/boot/vmlinuz-{kernel.name}, or GRUB_DEFAULT in "
        "/etc/default/grub.d and update-grub",
        fixable=possible,
    )


@rule(
    "driver.secure-boot",
    "error",
    always=True,
    why="The kernel refuses an unsigned module, or one signed with an unknown key: 'Key was"
    " rejected by service'.",
    manual="Run mokutil --import KEY and confirm it at the console during a boot, or turn "
    "Secure Boot off.",
    alone="Leave the node out of the job.",
)
def secure_boot(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """Secure Boot is on, and a kernel's nvidia module is not signed, or with an unknown key."""
    version, boot = target(found, wanted), found.secure_boot
    if boot is None or boot.state != "on" or version is None:
        return
    for kernel in bootable(found):
        module = kernel.module
        if module is None or not is_urgent(found, kernel):
            continue
        state = _signature(found, boot, module)
        if state is not None:
            yield Fault(
                subject=KernelRelease(kernel.name),
                found=state,
                wanted="signed with a key that the firmware knows",
                cause="'Key was rejected by service': the kernel refuses other modules",
                fix=f"mokutil --import {_key(boot, module) or signing_key(found)}, and confirm it "
                "at the console during a boot"
                + ("" if module.signer else "; then build again")
                + "; or turn Secure Boot off in the firmware",
                fixable=False,
            )


def _signature(found: DriverState, boot: SecureBoot, module: Module) -> str | None:
    """What is wrong with a module's signature; None where the firmware knows its key."""
    if not module.signer:
        return "not signed"
    if any(name in module.signer for name in _DISTRIBUTIONS):
        return None  # the key came with the firmware, or with the shim that it trusts
    key = _key(boot, module)
    is_ours = any(name in module.signer for name in _SIGNERS)
    enrolled = boot.keys[key] if key else boot.enrolled if is_ours else None
    now = running(found)
    if enrolled is None and now and now.module and now.module.signer == module.signer:
        # Secure Boot is on, and what is loaded has that signature.
        enrolled = True if found.loaded and found.loaded.nvidia == now.module.version else None
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


@rule(
    "driver.unattended-updates",
    "warning",
    always=True,
    why="An automatic update can replace the driver under a running job, or install a "
    "kernel without GPUs.",
    manual="Exclude kernel and driver packages from automatic updates.",
    alone="Save checkpoints: an update can end a job at any time.",
)
def unattended_updates(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """Updates that come by themselves may replace the kernel or the driver."""
    updates = found.updates
    if updates is None or not updates.by or target(found, wanted) is None:
        return
    free = [name for name in ("kernel", "driver") if not _is_spared(name, updates)]
    if free:
        yield Fault(
            subject=", ".join(updates.by),
            found=f"may replace the {' and the '.join(free)}",
            wanted="updated only manually",
            cause="a driver that is replaced under a running job ends in 'Driver/library version "
            "mismatch'; a new kernel boots without GPUs",
            fix='Unattended-Upgrade::Package-Blacklist {"linux-"; "nvidia"; "libnvidia";};'
            if "unattended-upgrades" in updates.by
            else "exclude=kernel* nvidia* kmod-nvidia* in /etc/yum.conf or /etc/dnf/dnf.conf",
            fixable=False,
        )


# What on hold keeps them: packages that bring the next one, and not one kernel's own.
_HELD = {
    "kernel": r"linux-(image-)?(generic|virtual|lowlatency|(cloud-|rt-)?amd64|aws|azure|gcp|oracle)"
    r"(-hwe-.*)?|kernel(-core)?",
    "driver": r"(nvidia-(driver|dkms)|kmod-nvidia|akmod-nvidia|cuda-drivers).*",
}


def _is_spared(kind: str, updates: Updates) -> bool:
    """Whether automatic updates are configured to leave out the kernel, or the driver."""
    names = UPDATED[kind]
    return any(name in updates.spared or matches_any(name, updates.globs) for name in names) or any(
        re.fullmatch(_HELD[kind], held) for held in updates.held
    )
