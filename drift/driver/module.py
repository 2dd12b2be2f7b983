"""The nvidia module: where it comes from, who signs it, which lines keep it from being loaded."""

import re
from collections.abc import Iterable
from typing import Literal

from gpu_node.drift.driver.boot import bootable, version_order
from gpu_node.facts.driver.kernels import Kernel
from gpu_node.facts.driver.loaded import Bar
from gpu_node.facts.driver.state import DriverState

CMDLINE = "/proc/cmdline"
# dkms builds it on the node; Ubuntu's linux-modules-nvidia has it built and signed for one kernel;
# kmod-* is the rpm family's, built for one kernel or for all that are compatible; .run is NVIDIA's
# installer without dkms.
Origin = Literal["dkms", "prebuilt", "kmod", ".run"]
_PREBUILT = re.compile(r"/kernel/(?P<flavour>nvidia-\d[^/]*)/")
_KMOD = re.compile(r"/(extra|weak-updates)/.+/")
_BRINGS_MODULE = re.compile(r"(linux-modules-nvidia-|kmod-nvidia)")
# As in nvidia-dkms-535, kmod-nvidia-latest-dkms, akmod-nvidia.
_BRINGS_DKMS = re.compile(r"(^|-)(dkms|akmod)(-|$)")


def origin_of(state: DriverState, kernel: Kernel) -> Origin | None:
    """Return where a kernel's module comes from, by its path; None: it has none, or unknown."""
    module = kernel.module
    if module is None:
        return None
    built = {(each.kernel, each.version) for each in (state.dkms.builds if state.dkms else ())}
    if _PREBUILT.search(module.file):
        return "prebuilt"
    if "/updates/dkms/" in module.file or (kernel.name, module.version) in built:
        return "dkms"
    if "/kernel/drivers/video/" in module.file:
        return ".run"
    return "kmod" if _KMOD.search(module.file) else None


def origin(state: DriverState) -> Origin | None:
    """Return where the node's module comes from: the running kernel's, else the newest one's."""
    running = state.kernels.running if state.kernels else None
    kernels = sorted(bootable(state), key=lambda each: version_order(each.name))
    kernels.sort(key=lambda each: each.name == running)
    origins = [origin_of(state, kernel) for kernel in reversed(kernels) if kernel.module]
    return origins[0] if origins else None


def follows_dkms(state: DriverState) -> bool:
    """Whether dkms is to build the module: no other origin is known."""
    return origin(state) in ("dkms", None)


def brings_dkms(package: str) -> bool:
    """Whether a package builds the module on the node."""
    return _BRINGS_DKMS.search(package) is not None


def brings_module(packages: Iterable[str]) -> bool:
    """Whether packages bring a module that is built already, and nothing that builds one."""
    names = list(packages)
    return any(map(_BRINGS_MODULE.match, names)) and not any(map(brings_dkms, names))


def unsigned(state: DriverState) -> str | None:
    """Return why a module that dkms builds may not be loaded after a boot; None if it may.

    Unknown is not fine: the GPUs would be gone with the next boot.
    """
    boot = state.secure_boot
    if boot is None:
        return "whether Secure Boot is on is unknown (is efivarfs mounted?)"
    if boot.state != "on" or boot.enrolled:
        return None
    if not boot.keys:
        return "Secure Boot is on, and dkms has no enrolled key to sign with"
    if boot.enrolled is None:
        return (
            "Secure Boot is on, and it is unknown whether dkms's "
            f"key {signing_key(state)} is enrolled (is mokutil installed?)"
        )
    return f"Secure Boot is on, and dkms's key {signing_key(state)} is not enrolled"


def signing_key(state: DriverState) -> str:
    """Return the certificate that dkms signs with."""
    keys = state.secure_boot.keys if state.secure_boot else {}
    return next(iter(keys), "/var/lib/dkms/mok.pub")


def advice(state: DriverState, kernel: str, version: str) -> str | None:
    """Return how a kernel gets its module where it does not come by dkms; None where it does."""
    by = origin(state)
    if by == "prebuilt":
        package = f"linux-modules-{_flavour(state)}-{kernel}"
        return f"install {package}, Ubuntu's prebuilt and signed module, at {version}, without dkms"
    if by == "kmod":
        return (
            f"install the kmod-nvidia package of {version} for this kernel; rpm "
            "-qf on another kernel's nvidia.ko shows its name"
        )
    if by == ".run":
        return (
            f"run NVIDIA's installer of {version} for this kernel (--kernel-module-only "
            f"--kernel-name={kernel}), or with --dkms, which builds it for each new kernel"
        )
    return None


def _flavour(state: DriverState) -> str:
    """Return what Ubuntu's packages call the branch: nvidia-535, nvidia-535-server-open."""
    files = [each.module.file for each in bootable(state) if each.module]
    matches = [match for match in map(_PREBUILT.search, files) if match]
    # The folder of the server branches is nvidia-535srv.
    return re.sub(r"(?<=\d)srv\b", "-server", matches[0]["flavour"]) if matches else "nvidia-BRANCH"


def bars(state: DriverState) -> tuple[Bar, ...]:
    """Return the lines that keep nvidia from being loaded; none where they are unreadable."""
    return state.loaded.bars if state.loaded else ()


def hard_bars(state: DriverState) -> tuple[Bar, ...]:
    """Return those that stop modprobe, too; a blacklist stops only what a boot loads."""
    soft = ("blacklist ", "modprobe.blacklist=")
    return tuple(bar for bar in bars(state) if not bar.text.startswith(soft))


def shown(bar: Bar) -> str:
    """Return a bar as text: `blacklist nvidia` in /etc/modprobe.d/a.conf."""
    return f"`{bar.text}` {'on' if bar.place == CMDLINE else 'in'} {place(bar)}"


def place(bar: Bar) -> str:
    """Return where a bar is, for people."""
    return "kernel command line" if bar.place == CMDLINE else bar.place


def removal(bar: Bar) -> str:
    """Return how a person removes a bar."""
    if bar.place != CMDLINE:
        return f"remove that line from {bar.place}"
    return (
        "remove it from GRUB_CMDLINE_LINUX (or GRUB_CMDLINE_LINUX_DEFAULT) in /etc/default/grub "
        "and run update-grub; on CentOS and Rocky: grubby --update-kernel=ALL "
        f"--remove-args='{bar.text}'; then reboot"
    )
