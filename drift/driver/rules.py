"""Driver rules about kernels: each has the module, or can have it, before it boots."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.driver.boot import (
    MOST_REPAIRED,
    bootable,
    is_urgent,
    may_boot_next,
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
from gpu_node.drift.driver.target import (
    builds,
    installed,
    is_built,
    is_version,
    newest_with_module,
    running,
    source_of,
    target,
)
from gpu_node.drift.engine.rule import Fault, on_node, on_subject, rule
from gpu_node.drift.engine.subject import Initramfs, KernelRelease
from gpu_node.facts.driver.kernels import Kernel
from gpu_node.facts.driver.state import DriverState
from gpu_node.inventories.schema import DriverWanted

_GONE = "'NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver'"

_LEFT_OUT = (
    "remove that kernel: the deploy builds for the running kernel, the one that boots next and the "
    f"newest others, {MOST_REPAIRED} in all; or "
)


def _shown(kernel: Kernel, found: DriverState) -> str:
    """What a kernel has in the module's place, and how far dkms came."""
    if kernel.module is not None:
        return f"{kernel.module.version} at {kernel.module.file}"
    states = [
        f"{each.version} {each.state}"
        for each in (found.dkms.builds if found.dkms else ())
        if each.kernel == kernel.name
    ]
    return f"no module (dkms: {', '.join(states)})" if states else "no module"


def _build(found: DriverState, kernel: str, version: str) -> str:
    """How to build a kernel's module; manually where its sources are missing."""
    other = advice(found, kernel, version)
    if other:
        return other
    source, why = source_of(found, version), unsigned(found)
    if source is None:
        return (
            f"install the driver's dkms package of {version} (with NVIDIA's installer: --dkms; of "
            "Ubuntu's: linux-modules-nvidia for this kernel): its sources are not in /usr/src, so "
            "that dkms has nothing to build"
        )
    way = f"dkms install -m {source.name} -v {version} -k {kernel}"
    return f"{why}: {_enrol(found)}; then: {way}" if why else way


def _enrol(found: DriverState) -> str:
    """The way to a key that the firmware knows."""
    return (
        f"mokutil --import {signing_key(found)}, and confirm it at the console during a boot (or "
        "turn Secure Boot off in the firmware)"
    )


@rule(
    "driver.version-differs",
    "error",
    key="driver.version",
    why="Nodes of one job with different drivers can run different CUDA releases.",
    manual="Install the driver packages of the wanted version while no process uses the GPUs.",
    alone="Use a torch that is built for the CUDA of the oldest driver.",
)
def version_differs(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The installed driver is not the one that the inventory wants."""
    version = installed(found)
    if version is None or wanted.version is None or is_version(version, wanted.version):
        return
    yield Fault(
        subject="driver",
        found=version,
        wanted=wanted.version,
        cause="nodes of one job with different drivers differ in the CUDA that they can run",
        fix=f"install the driver's packages of {wanted.version} while nothing uses the GPUs",
        fixable=False,
    )


@rule(
    "driver.dkms-missing",
    ("error", "warning"),
    step="driver",
    always=True,
    why="No program builds the module for a new kernel, so the GPUs are lost at the next "
    "boot into one.",
    manual="Install dkms (on CentOS and Rocky from EPEL).",
    repair="Installs the package dkms.",
    alone="While nvidia-smi works, jobs run. Ask the admin not to reboot the node before "
    "the repair.",
)
def dkms_missing(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The driver's sources are there, and no dkms that would build them."""
    version = target(found, wanted)
    if version is None or found.dkms is None or found.dkms.present or not found.dkms.sources:
        return
    if not follows_dkms(found):
        return  # Ubuntu's driver has its sources beside a prebuilt module, too
    why = unsigned(found)
    lacking = [each.name for each in bootable(found) if not is_built(each, version)]
    yield Fault(
        subject="dkms",
        found="not installed",
        wanted="installed",
        cause=f"nothing builds the module for {', '.join(lacking)}"
        if lacking
        else "nothing builds the module for a kernel update: the next boot loses the GPUs",
        fix=f"{why}: once dkms has made its key, {_enrol(found)}; then build the module"
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
    why="dkms cannot build the module for a kernel without its headers.",
    manual="Install kernel-devel-KERNEL, or linux-headers-KERNEL on Debian and Ubuntu, for "
    "exactly this kernel.",
    repair="Installs the headers of the running kernel and of a kernel that may boot next, for at "
    f"most {MOST_REPAIRED} kernels.",
    alone="While nvidia-smi works, jobs run. Ask the admin not to reboot the node before "
    "the repair.",
)
def headers_missing(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """A kernel has no headers to build the module against."""
    version = target(found, wanted)
    if version is None or found.dkms is None or not found.dkms.sources:
        return
    if not follows_dkms(found):
        return
    chosen = repaired(found)
    for kernel in bootable(found):
        if not kernel.headers:
            has = is_built(kernel, version)
            is_chosen = kernel.name in chosen and is_urgent(found, kernel)
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
                fixable=not has and is_chosen and builds(found, wanted, version),
                severity="warning" if has or not is_urgent(found, kernel) else None,
            )


@rule(
    "driver.module-not-built",
    "error",
    step="driver",
    because_of=(on_subject(headers_missing), on_node(dkms_missing)),
    always=True,
    why="Without the module the running kernel has no GPUs: nvidia-smi cannot communicate "
    "with the driver.",
    manual="Run dkms install -m NAME -v VERSION -k KERNEL, or install the module the way the "
    "driver was installed.",
    repair="Builds the module with dkms for the running kernel.",
    alone="Leave the node out of the job.",
)
def module_not_built(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The running kernel has no module of the driver's version."""
    version, kernel = target(found, wanted), running(found)
    if version is None or found.kernels is None:
        return
    # A container has no kernel and no boot loader: the driver is that of its host.
    if not found.kernels.installed and next_boot(found).kernel is None:
        return
    if kernel is None:
        yield Fault(
            subject=KernelRelease(found.kernels.running),
            found="its modules are not installed any more",
            wanted=f"nvidia {version}",
            cause="the kernel was removed while it runs: no module can be loaded into it",
            fix="reboot into an installed kernel: --data reboot=true",
            fixable=False,
        )
    elif not is_built(kernel, version):
        yield Fault(
            subject=KernelRelease(kernel.name),
            found=_shown(kernel, found),
            wanted=f"nvidia {version}",
            cause=f"the module was built for another kernel: {_GONE}",
            fix=_build(found, kernel.name, version),
            fixable=builds(found, wanted, version),
        )


def _offer(found: DriverState, wanted: DriverWanted, version: str, is_next: bool) -> str:
    """The other way, where this driver does not compile for a kernel that boots next."""
    other = newest_with_module(found, version)
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
    found: DriverState, kernel: Kernel, version: str, is_next: bool
) -> Iterator[Fault]:
    """Yield a fault where a boot would load nvidia from an initramfs older than the module."""
    stale = (found.stale_images or {}).get(kernel.name, False)
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
    why="A reboot into such a kernel loses the GPUs.",
    manual="Build the module for that kernel, or choose a default kernel that has it.",
    repair="Builds the module with dkms for the kernel that boots next, and the newest others: "
    f"{MOST_REPAIRED} kernels with the running one.",
    alone="While nvidia-smi works, jobs run. Ask the admin not to reboot the node before "
    "the repair.",
)
def boots_without(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """A reboot would lose the GPUs: a kernel that may boot has no module of the driver."""
    version = target(found, wanted)
    if version is None or found.kernels is None:
        return
    for bar in bars(found):
        yield Fault(
            subject=place(bar),
            found=bar.text,
            wanted="no line that prevents loading nvidia",
            cause="this line prevents loading the module at boot: the GPUs would be lost",
            fix=removal(bar),
            fixable=False,
        )
    chosen, source = next_boot(found)
    within = repaired(found)
    for kernel in bootable(found):
        is_next = may_boot_next(found, kernel)
        yield from _stale_image(found, kernel, version, is_next)
        if is_built(kernel, version) or kernel.name == found.kernels.running:
            continue  # driver.module-not-built reports that it has none now
        when = (
            f"boots next, according to {source}"
            if chosen
            else f"may boot next: the next kernel is unknown ({source})"
        )
        yield Fault(
            subject=KernelRelease(kernel.name),
            found=_shown(kernel, found),
            wanted=f"nvidia {version}",
            cause=f"this kernel {when}: the GPUs would be lost, with {_GONE}"
            if is_next
            else "a boot into this kernel, chosen in the boot menu, loses the GPUs",
            fix=("" if kernel.name in within else _LEFT_OUT)
            + _build(found, kernel.name, version)
            + _offer(found, wanted, version, is_next),
            fixable=builds(found, wanted, version)
            and kernel.name in within
            and (is_next or kernel.headers),
            severity=None if is_next else "warning",
        )
    if chosen is None and found.boot is not None and not found.boot.closed and bootable(found):
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
    if chosen and chosen not in {each.name for each in bootable(found)}:
        yield Fault(
            subject=chosen,
            found="not installed",
            wanted="an installed kernel",
            cause=f"{source} names it as the next kernel, but it is not installed",
            fix="choose one: grubby --set-default=/boot/vmlinuz-..., or GRUB_DEFAULT and "
            "update-grub",
            fixable=False,
        )
