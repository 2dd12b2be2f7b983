"""Driver rules about kernels: each has the module, or can have it, before it boots."""

from __future__ import annotations

from collections.abc import Iterator

from drift.boot import bootable, is_urgent, may_boot_next, next_boot
from drift.driver import (
    builds,
    installed,
    is_built,
    is_version,
    newest_with_module,
    running,
    source_of,
    target,
)
from drift.module import (
    advice,
    bars,
    follows_dkms,
    place,
    removal,
    signing_key,
    unsigned,
)
from drift.rules.rule import Fault, rule
from facts.driver import DriverState
from facts.kernels import Kernel
from inventories.schema import DriverWanted

_GONE = "'NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver'"


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
    """The way to a kernel's module; by hand where there is nothing to build it from."""
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


@rule("driver.version-differs", "error")
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


@rule("driver.dkms-missing", "error")
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
        else "nothing builds the module when a kernel update comes: the GPUs go with the next boot",
        fix=f"{why}: once dkms has made its key, {_enrol(found)}; then build the module"
        if why
        else "install dkms (from EPEL on CentOS and Rocky)",
        fixable=why is None,
        severity=None if lacking else "warning",
    )


@rule("driver.headers-missing", "error")
def headers_missing(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """A kernel has no headers to build the module against."""
    version = target(found, wanted)
    if version is None or found.dkms is None or not found.dkms.sources:
        return
    if not follows_dkms(found):
        return
    for kernel in bootable(found):
        if not kernel.headers:
            has = is_built(kernel, version)
            yield Fault(
                subject=kernel.name,
                found="no headers",
                wanted=f"those of {kernel.name}",
                cause="it has its module, and the next driver could not be built for it"
                if has
                else "dkms cannot build the module for it",
                fix=f"install kernel-devel-{kernel.name} (linux-headers-{kernel.name} on Debian "
                "and Ubuntu): exactly this one, the newest is for another kernel"
                + ("" if is_urgent(found, kernel) else "; or remove that kernel"),
                # Old kernels outlive their headers in the repositories: those are a person's.
                # Debian's headers have dkms build at once, which Secure Boot may not let load.
                fixable=not has and is_urgent(found, kernel) and builds(found, wanted, version),
                severity="warning" if has or not is_urgent(found, kernel) else None,
            )


@rule("driver.module-not-built", "error")
def module_not_built(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The running kernel has no module of the driver's version."""
    version, kernel = target(found, wanted), running(found)
    if version is None or found.kernels is None:
        return
    if kernel is None:
        yield Fault(
            subject=found.kernels.running,
            found="its modules are not installed any more",
            wanted=f"nvidia {version}",
            cause="the kernel was removed while it runs: no module can be loaded into it",
            fix="reboot into an installed kernel: --data reboot=true",
            fixable=False,
        )
    elif not is_built(kernel, version):
        yield Fault(
            subject=kernel.name,
            found=_shown(kernel, found),
            wanted=f"nvidia {version}",
            cause=f"the kernel is another one than the module was built for: {_GONE}",
            fix=_build(found, kernel.name, version),
            fixable=builds(found, wanted, version),
        )


def _offer(found: DriverState, wanted: DriverWanted, version: str, is_next: bool) -> str:
    """The other way, where this driver does not compile for a kernel that boots next."""
    other = newest_with_module(found, version)
    if other is None:
        return ""
    if wanted.hold_kernel:
        return f"; {other.name}, which has its module, is to be the default"
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
        subject=f"initramfs of {kernel.name}",
        found="holds an nvidia module from before the installed one"
        if stale
        else "older than the installed nvidia module, and not readable",
        wanted=f"nvidia {version}, or none",
        cause="a boot loads the module that the initramfs holds: with the library of another "
        "version it ends in 'Driver/library version mismatch'",
        fix=f"make it anew: update-initramfs -u -k {kernel.name}, or dracut -f --kver "
        f"{kernel.name}",
        fixable=False,
        severity=None if is_next and stale else "warning",
    )


@rule("driver.next-boot", "error")
def boots_without(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """A reboot would lose the GPUs: a kernel that may boot has no module of the driver."""
    version = target(found, wanted)
    if version is None or found.kernels is None:
        return
    for bar in bars(found):
        yield Fault(
            subject=place(bar),
            found=bar.text,
            wanted="nothing that keeps nvidia from being loaded",
            cause="a boot loads no module that this line keeps out: the GPUs would be gone",
            fix=removal(bar),
            fixable=False,
        )
    chosen, source = next_boot(found)
    for kernel in bootable(found):
        is_next = may_boot_next(found, kernel)
        yield from _stale_image(found, kernel, version, is_next)
        if is_built(kernel, version) or kernel.name == found.kernels.running:
            continue  # that it has none now is told by driver.module-not-built
        when = (
            f"boots next, says {source}"
            if chosen
            else f"may boot next: which one does is unknown ({source})"
        )
        yield Fault(
            subject=kernel.name,
            found=_shown(kernel, found),
            wanted=f"nvidia {version}",
            cause=f"this kernel {when}: the GPUs would be gone, with {_GONE}"
            if is_next
            else "whoever chooses this kernel in the boot menu loses the GPUs",
            fix=_build(found, kernel.name, version) + _offer(found, wanted, version, is_next),
            fixable=builds(found, wanted, version) and (is_next or kernel.headers),
            severity=None if is_next else "warning",
        )
    if chosen is None and found.boot is not None and not found.boot.closed and bootable(found):
        yield Fault(
            subject="next boot",
            found="unknown",
            wanted="an installed kernel",
            cause=f"no installed kernel is the entry that is chosen by {source}",
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
            cause=f"{source} says that it boots next, and there is no such kernel",
            fix="choose one: grubby --set-default=/boot/vmlinuz-..., or GRUB_DEFAULT and "
            "update-grub",
            fixable=False,
        )
