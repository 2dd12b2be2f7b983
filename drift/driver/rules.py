"""Driver rules: the wanted version, and its module in each kernel that may boot."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.driver.boot import (
    MOST_REPAIRED,
    bootable,
    is_urgent,
    may_boot_next,
    menu_entry,
    next_boot,
    repaired,
)
from gpu_node.drift.driver.module import (
    advice,
    bars,
    follows_dkms,
    place,
    removal,
    signing_key,
    unsigned,
)
from gpu_node.drift.driver.subjects import Initramfs, KernelRelease
from gpu_node.drift.driver.target import (
    builds,
    installed,
    is_built,
    is_version,
    kernel_to_hold,
    newest_with_module,
    running,
    source_of,
    target,
)
from gpu_node.drift.engine.rule import Fault, on_node, on_subject, rule
from gpu_node.facts.driver.kernels import Kernel
from gpu_node.facts.driver.state import DriverState
from gpu_node.inventories.schema import DriverWanted

_GONE = "'NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver'"

_LEFT_OUT = (
    "remove that kernel: the deploy builds for the running kernel, the one that boots next and the "
    f"newest others, {MOST_REPAIRED} in all; or "
)


def _shown(kernel: Kernel, state: DriverState) -> str:
    """What a kernel has in the module's place, and how far dkms came."""
    if kernel.module is not None:
        return f"{kernel.module.version} at {kernel.module.file}"
    states = [
        f"{each.version} {each.state}"
        for each in (state.dkms.builds if state.dkms else ())
        if each.kernel == kernel.name
    ]
    return f"no module (dkms: {', '.join(states)})" if states else "no module"


def _build(state: DriverState, kernel: str, version: str) -> str:
    """How to build a kernel's module; manually where its sources are missing."""
    other = advice(state, kernel, version)
    if other:
        return other
    source, why = source_of(state, version), unsigned(state)
    if source is None:
        return (
            f"install the driver's dkms package of {version} (with NVIDIA's installer: --dkms; of "
            "Ubuntu's: linux-modules-nvidia for this kernel): its sources are not in /usr/src, so "
            "that dkms has nothing to build"
        )
    way = f"dkms install -m {source.name} -v {version} -k {kernel}"
    return f"{why}: {_enrol(state)}; then: {way}" if why else way


def _enrol(state: DriverState) -> str:
    """The way to a key that the firmware knows."""
    return (
        f"mokutil --import {signing_key(state)}, and confirm it at the console during a boot (or "
        "turn Secure Boot off in the firmware)"
    )


@rule(
    "driver.version-differs",
    "error",
    key="driver.version",
    why="nodes of one job with different drivers differ in the CUDA that they can run",
    manual="install the driver packages of the wanted version while no process uses the GPUs",
    alone="Use a torch that is built for the CUDA of the oldest driver.",
)
def version_differs(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The installed driver is not the one that the inventory wants."""
    version = installed(state)
    if version is None or wanted.version is None or is_version(version, wanted.version):
        return
    yield Fault(
        subject="driver",
        found=version,
        wanted=wanted.version,
        fix=f"install the driver's packages of {wanted.version} while nothing uses the GPUs",
    )


@rule(
    "driver.dkms-missing",
    ("error", "warning"),
    step="driver",
    always=True,
    why="no program builds the module for a new kernel, so the GPUs are lost at the next "
    "boot into one",
    manual="install dkms (on CentOS and Rocky from EPEL)",
    repair="Installs the package dkms.",
    alone="While nvidia-smi works, jobs run. Ask the admin not to reboot the node before "
    "the repair.",
)
def dkms_missing(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The driver's sources are there, and no dkms that would build them."""
    version = target(state, wanted)
    if version is None or state.dkms is None or state.dkms.present or not state.dkms.sources:
        return
    if not follows_dkms(state):
        return  # Ubuntu's driver has its sources beside a prebuilt module, too
    why = unsigned(state)
    lacking = [each.name for each in bootable(state) if not is_built(each, version)]
    yield Fault(
        subject="dkms",
        found="not installed",
        wanted="installed",
        cause=f"nothing builds the module for {', '.join(lacking)}"
        if lacking
        else "nothing builds the module for a kernel update: the next boot loses the GPUs",
        fix=f"{why}: once dkms has made its key, {_enrol(state)}; then build the module"
        if why
        else "install dkms (from EPEL on CentOS and Rocky)",
        fixable=why is None,
        severity=None if lacking else "warning",
    )


@rule(
    "driver.headers-missing",
    ("error", "warning"),
    step="driver",
    always=True,
    why="dkms cannot build the module for a kernel without its headers",
    manual="install kernel-devel-KERNEL, or linux-headers-KERNEL on Debian and Ubuntu, for "
    "exactly this kernel",
    repair="Installs the headers of the running kernel and of a kernel that may boot next, for at "
    f"most {MOST_REPAIRED} kernels.",
    alone="While nvidia-smi works, jobs run. Ask the admin not to reboot the node before "
    "the repair.",
)
def headers_missing(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """A kernel has no headers to build the module against."""
    version = target(state, wanted)
    if version is None or state.dkms is None or not state.dkms.sources:
        return
    if not follows_dkms(state):
        return
    chosen = repaired(state)
    for kernel in bootable(state):
        if not kernel.headers:
            has = is_built(kernel, version)
            is_chosen = kernel.name in chosen and is_urgent(state, kernel)
            yield Fault(
                subject=KernelRelease(kernel.name),
                found="no headers",
                wanted=f"those of {kernel.name}",
                cause="it has its module, but dkms cannot build the next driver for it"
                if has
                else "dkms cannot build the module for it",
                fix=f"install kernel-devel-{kernel.name} (linux-headers-{kernel.name} on Debian "
                "and Ubuntu): exactly this one, the newest is for another kernel"
                + ("" if is_chosen else "; or remove that kernel"),
                # Old kernels outlive their headers in the repositories: those are a person's.
                # Debian's headers have dkms build at once, which Secure Boot may not let load.
                fixable=not has and is_chosen and builds(state, wanted, version),
                severity="warning" if has or not is_urgent(state, kernel) else None,
            )


@rule(
    "driver.module-not-built",
    "error",
    step="driver",
    because_of=(on_subject(headers_missing), on_node(dkms_missing)),
    always=True,
    stops="every",
    why="without the module the running kernel has no GPUs: nvidia-smi cannot communicate "
    "with the driver",
    manual="run dkms install -m NAME -v VERSION -k KERNEL, or install the module the way the "
    "driver was installed",
    repair="Builds the module with dkms for the running kernel.",
    alone="Leave the node out of the job.",
)
def module_not_built(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The running kernel has no module of the driver's version."""
    version, kernel = target(state, wanted), running(state)
    if version is None or state.kernels is None:
        return
    # A container has no kernel and no boot loader: the driver is that of its host.
    if not state.kernels.installed and next_boot(state).kernel is None:
        return
    is_loaded = bool(state.loaded and state.loaded.nvidia)
    if kernel is None:
        yield Fault(
            subject=KernelRelease(state.kernels.running),
            found="its modules are not installed any more",
            wanted=f"nvidia {version}",
            cause="the kernel was removed while it runs: no module can be loaded into it",
            fix="reboot into an installed kernel: --data reboot=true",
            fixable=False,
            stops=not is_loaded,
        )
    elif not is_built(kernel, version):
        yield Fault(
            subject=KernelRelease(kernel.name),
            found=_shown(kernel, state),
            wanted=f"nvidia {version}",
            cause=f"the module was built for another kernel: {_GONE}",
            fix=_build(state, kernel.name, version),
            fixable=builds(state, wanted, version),
            stops=not is_loaded,
        )


def _offer(state: DriverState, wanted: DriverWanted, version: str, is_next: bool) -> str:
    """The other way, where this driver does not compile for a kernel that boots next."""
    other = newest_with_module(state, version)
    if other is None:
        return ""
    if wanted.hold_kernel:
        return f"; {other.name}, which has its module, becomes the default"
    if not is_next:
        return ""
    return (
        f"; or boot {other.name}, which has its module: driver: {{hold_kernel: true}} keeps that "
        "the default until the key is removed"
    )


def _stale_image(
    state: DriverState, kernel: Kernel, version: str, is_next: bool
) -> Iterator[Fault]:
    """Yield a fault where a boot would load nvidia from an initramfs older than the module."""
    stale = (state.stale_images or {}).get(kernel.name, False)
    if stale is False or not is_built(kernel, version):
        return
    yield Fault(
        subject=Initramfs(kernel.name),
        found="holds an older nvidia module than the installed one"
        if stale
        else "older than the installed nvidia module, and not readable",
        wanted=f"nvidia {version}, or none",
        cause="a boot loads this module, which does not "
        "match the library: 'Driver/library version mismatch'",
        fix=f"rebuild it: update-initramfs -u -k {kernel.name}, or dracut -f --kver {kernel.name}",
        fixable=False,
        severity=None if is_next and stale else "warning",
    )


@rule(
    "driver.next-boot",
    ("error", "warning"),
    step="driver",
    because_of=(on_subject(headers_missing), on_node(dkms_missing, of=(KernelRelease,))),
    always=True,
    why="a reboot into such a kernel loses the GPUs",
    manual="build the module for that kernel, or choose a default kernel that has it",
    repair="Builds the module with dkms for the kernel that boots next, and the newest others: "
    f"{MOST_REPAIRED} kernels with the running one.",
    alone="While nvidia-smi works, jobs run. Ask the admin not to reboot the node before "
    "the repair.",
)
def boots_without(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """A reboot would lose the GPUs: a kernel that may boot has no module of the driver."""
    version = target(state, wanted)
    if version is None or state.kernels is None:
        return
    for bar in bars(state):
        yield Fault(
            subject=place(bar),
            found=bar.text,
            wanted="no line that prevents loading nvidia",
            cause="this line prevents loading the module at boot: the GPUs would be lost",
            fix=removal(bar),
            fixable=False,
        )
    chosen, source = next_boot(state)
    within = repaired(state)
    for kernel in bootable(state):
        is_next = may_boot_next(state, kernel)
        yield from _stale_image(state, kernel, version, is_next)
        if is_built(kernel, version) or kernel.name == state.kernels.running:
            continue  # driver.module-not-built reports that it has none now
        when = (
            f"boots next, according to {source}"
            if chosen
            else f"may boot next: the next kernel is unknown ({source})"
        )
        yield Fault(
            subject=KernelRelease(kernel.name),
            found=_shown(kernel, state),
            wanted=f"nvidia {version}",
            cause=f"this kernel {when}: the GPUs would be lost, with {_GONE}"
            if is_next
            else "a boot into this kernel, chosen in the boot menu, loses the GPUs",
            fix=("" if kernel.name in within else _LEFT_OUT)
            + _build(state, kernel.name, version)
            + _offer(state, wanted, version, is_next),
            fixable=builds(state, wanted, version)
            and kernel.name in within
            and (is_next or kernel.headers),
            severity=None if is_next else "warning",
        )
    if chosen is None and state.boot is not None and not state.boot.closed and bootable(state):
        yield Fault(
            subject="next boot",
            found="unknown",
            wanted="an installed kernel",
            cause=f"the entry that {source} chooses is not an installed kernel",
            fix="choose one: grubby --set-default=/boot/vmlinuz-..., or GRUB_DEFAULT and "
            "update-grub",
            fixable=False,
            severity="warning",
        )
    if chosen and chosen not in {each.name for each in bootable(state)}:
        yield Fault(
            subject=chosen,
            found="not installed",
            wanted="an installed kernel",
            cause=f"{source} names it as the next kernel, but it is not installed",
            fix="choose one: grubby --set-default=/boot/vmlinuz-..., or GRUB_DEFAULT and "
            "update-grub",
            fixable=False,
        )


@rule(
    "driver.kernel-hold",
    ("error", "warning"),
    step="driver",
    key="driver",
    why="driver: {hold_kernel: true} keeps the newest kernel that has the module the default",
    manual="run grubby --set-default=/boot/vmlinuz-KERNEL, or set GRUB_DEFAULT and run update-grub",
    repair="Changes the default kernel of the boot loader, or restores the default from before"
    " the hold.",
    alone="While nvidia-smi works, jobs run. Ask the admin not to reboot the node before "
    "the repair.",
)
def kernel_hold(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The newest kernel with the module is not the held default, or is held and should not be."""
    version, boot = target(state, wanted), state.boot
    if boot is None or (version is None and wanted.hold_kernel):
        return
    kernel = kernel_to_hold(state, wanted, version) if version else None
    if not wanted.hold_kernel and boot.held:
        yield Fault(
            subject=KernelRelease(boot.held),
            found="held as the default kernel",
            wanted="no hold",
            cause="the inventory no longer wants the hold: newer kernels never boot",
            fix="remove the hold: the earlier default kernel is the default again",
            severity="warning",
        )
    chosen = next_boot(state).kernel
    if kernel is None or (boot.held == kernel.name and chosen in (None, kernel.name)):
        return  # that the next boot is unknown has a finding where it matters
    possible = bool(boot.grubby or menu_entry(boot, kernel.name))
    yield Fault(
        subject=KernelRelease(kernel.name),
        found=f"{chosen or 'an unknown kernel'} boots next",
        wanted=f"{kernel.name} is the default, and held",
        fix=f"grubby --set-default=/boot/vmlinuz-{kernel.name}, or GRUB_DEFAULT in "
        "/etc/default/grub.d and update-grub",
        fixable=possible,
    )
