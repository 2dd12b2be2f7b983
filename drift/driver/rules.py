"""Driver rules: the wanted version, on all nodes alike, and its module in each kernel to boot."""

from collections.abc import Iterator
from dataclasses import replace

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
from gpu_node.drift.driver.shown import NO_DRIVER
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
from gpu_node.drift.engine.compare import fault
from gpu_node.drift.engine.nodes import Unlike
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.facts.driver.kernels import Kernel
from gpu_node.facts.driver.state import DriverState
from gpu_node.inventories.wanted import DriverWanted

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
    if error := _error(state, kernel.name):
        return f"no module (dkms failed: {error})"
    return f"no module (dkms: {', '.join(states)})" if states else "no module"


def _error(state: DriverState, kernel: str) -> str:
    """Return why dkms's last build for a kernel failed; empty where none is known to have."""
    failed = state.dkms.failed if state.dkms else ()
    return next((each.error for each in failed if each.kernel == kernel), "")


def _build(state: DriverState, kernel: str, version: str) -> str:
    """How to build a kernel's module; manually where its sources are missing."""
    other = advice(state, kernel, version)
    if other:
        return other
    source, why = source_of(state, version), unsigned(state)
    if source is None:
        return (
            f"install the driver's dkms package of {version} (Debian's: nvidia-kernel-dkms; with "
            "NVIDIA's installer: --dkms; of Ubuntu's: linux-modules-nvidia for this kernel): its "
            "sources are not in /usr/src, so that dkms has nothing to build"
        )
    way = f"dkms install -m {source.name} -v {version} -k {kernel}"
    if _error(state, kernel):
        way += "; where that fails again: a driver that supports this kernel, or an older kernel"
    return f"{why}: {_enrol(state)}; then: {way}" if why else way


def _enrol(state: DriverState) -> str:
    """The way to a key that the firmware knows."""
    return (
        f"mokutil --import {signing_key(state)}, and confirm it at the console during a boot (or "
        "turn Secure Boot off in the firmware)"
    )


@check("driver.version-differs")
def version_differs(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    version = installed(at.here)
    if version is None or at.want.version is None or is_version(version, at.want.version):
        return
    yield Fault(
        subject="driver",
        found=version,
        wanted=at.want.version,
        fix=f"install the driver's packages of {at.want.version} while nothing uses the GPUs",
    )


@check("driver.dkms-missing")
def dkms_missing(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    version = target(at.here, at.want)
    if version is None or at.here.dkms is None or at.here.dkms.present or not at.here.dkms.sources:
        return
    if not follows_dkms(at.here):
        return  # Ubuntu's driver has its sources beside a prebuilt module, too
    why = unsigned(at.here)
    lacking = [each.name for each in bootable(at.here) if not is_built(each, version)]
    yield Fault(
        subject="dkms",
        found="not installed",
        wanted="installed",
        cause=f"nothing builds the module for {', '.join(lacking)}" if lacking else "",
        fix=f"{why}: once dkms has made its key, {_enrol(at.here)}; then build the module"
        if why
        else "install dkms (from EPEL on CentOS and Rocky)",
        fixable=why is None,
        severity=None if lacking else "warning",
    )


@check("driver.headers-missing")
def headers_missing(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    version = target(at.here, at.want)
    if version is None or at.here.dkms is None or not at.here.dkms.sources:
        return
    if not follows_dkms(at.here):
        return
    chosen = repaired(at.here)
    for kernel in bootable(at.here):
        if not kernel.headers:
            has = is_built(kernel, version)
            is_chosen = kernel.name in chosen and is_urgent(at.here, kernel)
            yield Fault(
                subject=KernelRelease(kernel.name),
                found="no headers",
                wanted=f"those of {kernel.name}",
                cause="it has its module, but dkms cannot build the next driver for it" * has,
                names={"KERNEL": kernel.name},
                # Old kernels outlive their headers in the repositories: those are a person's.
                # Debian's headers have dkms build at once, which Secure Boot may not let load.
                fixable=not has and is_chosen and builds(at.here, at.want, version),
                severity="warning" if has or not is_urgent(at.here, kernel) else None,
            )


@check("driver.module-not-built")
def module_not_built(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    version, kernel = target(at.here, at.want), running(at.here)
    if version is None or at.here.kernels is None:
        return
    # A container has no kernel and no boot loader: the driver is that of its host.
    if not at.here.kernels.installed and next_boot(at.here).kernel is None:
        return
    is_loaded = bool(at.here.loaded and at.here.loaded.nvidia)
    if kernel is None:
        yield Fault(
            subject=KernelRelease(at.here.kernels.running),
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
            found=_shown(kernel, at.here),
            wanted=f"nvidia {version}",
            cause=f"{_why(at.here, kernel, version)}: {_GONE}",
            fix=_build(at.here, kernel.name, version),
            fixable=builds(at.here, at.want, version),
            stops=not is_loaded,
        )


def _why(state: DriverState, kernel: Kernel, version: str) -> str:
    """Return why a kernel has no module of a version, as far as what is installed shows it."""
    if kernel.module is not None:
        return f"the module is that of {kernel.module.version}"
    if any(is_built(each, version) for each in bootable(state)):
        return "the module was built for another kernel"
    if source_of(state, version) is None:
        return "no kernel has it: the package of the module is not installed beside the library"
    return "it was built for no kernel"


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
        explained_by=("driver.headers-missing",),
    )


@check("driver.next-boot")
def boots_without(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    version = target(at.here, at.want)
    if version is None or at.here.kernels is None:
        return
    for bar in bars(at.here):
        yield Fault(
            subject=place(bar),
            found=bar.text,
            wanted="no line that prevents loading nvidia",
            cause="this line prevents loading the module at boot: the GPUs would be lost",
            fix=removal(bar),
            fixable=False,
            explained_by=(),
        )
    chosen, source = next_boot(at.here)
    within = repaired(at.here)
    for kernel in bootable(at.here):
        is_next = may_boot_next(at.here, kernel)
        yield from _stale_image(at.here, kernel, version, is_next)
        if is_built(kernel, version) or kernel.name == at.here.kernels.running:
            continue  # driver.module-not-built reports that it has none now
        when = (
            f"boots next, according to {source}"
            if chosen
            else f"may boot next: the next kernel is unknown ({source})"
        )
        yield Fault(
            subject=KernelRelease(kernel.name),
            found=_shown(kernel, at.here),
            wanted=f"nvidia {version}",
            cause=f"this kernel {when}: the GPUs would be lost, with {_GONE}"
            if is_next
            else "a boot into this kernel, chosen in the boot menu, loses the GPUs",
            fix=("" if kernel.name in within else _LEFT_OUT)
            + _build(at.here, kernel.name, version)
            + _offer(at.here, at.want, version, is_next),
            fixable=builds(at.here, at.want, version)
            and kernel.name in within
            and (is_next or kernel.headers),
            severity=None if is_next else "warning",
        )
    if (
        chosen is None
        and at.here.boot is not None
        and not at.here.boot.closed
        and bootable(at.here)
    ):
        yield Fault(
            subject="next boot",
            found="unknown",
            wanted="an installed kernel",
            cause=f"the entry that {source} chooses is not an installed kernel",
            fix="choose one: grubby --set-default=/boot/vmlinuz-..., or GRUB_DEFAULT and "
            "update-grub",
            fixable=False,
            severity="warning",
            explained_by=(),
        )
    if chosen and chosen not in {each.name for each in bootable(at.here)}:
        yield Fault(
            subject=chosen,
            found="not installed",
            wanted="an installed kernel",
            cause=f"{source} names it as the next kernel, but it is not installed",
            fix="choose one: grubby --set-default=/boot/vmlinuz-..., or GRUB_DEFAULT and "
            "update-grub",
            fixable=False,
            explained_by=(),
        )


@check("driver.kernel-hold")
def kernel_hold(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    version, boot = target(at.here, at.want), at.here.boot
    if boot is None or (version is None and at.want.hold_kernel):
        return
    kernel = kernel_to_hold(at.here, at.want, version) if version else None
    if not at.want.hold_kernel and boot.held:
        yield Fault(
            subject=KernelRelease(boot.held),
            found="held as the default kernel",
            wanted="no hold",
            cause="the inventory no longer wants the hold: newer kernels never boot",
            fix="remove the hold: the earlier default kernel is the default again",
            severity="warning",
        )
    chosen = next_boot(at.here).kernel
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


@check("driver.differs")
def differs(at: At) -> Iterator[Fault]:
    for each in at.nodes.unlike:
        if each.fact.name == "driver.version":
            # An inventory may be of nodes without GPUs, or of their SSH alone.
            is_warning = at.wanted.driver is None and not _are_versions(each)
            yield replace(fault(each), severity="warning" if is_warning else None)


def _are_versions(unlike: Unlike) -> bool:
    """Whether the node has another version than a node beside it, or cannot be read."""
    versions = [value for value in unlike.values if value not in NO_DRIVER]
    return unlike.value is None or (unlike.value not in NO_DRIVER and len(versions) > 1)
