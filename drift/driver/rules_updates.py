"""Driver rules about updates that replace the driver: automatic ones, and the next manual one."""

import re
from collections.abc import Iterator

from gpu_node.drift.driver.module import brings_dkms
from gpu_node.drift.driver.target import against_gpu, branch, models, target
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import SystemPackages
from gpu_node.facts.driver.state import UPDATED, DriverState, Updates
from gpu_node.facts.driver.upgrades import Upgrade
from gpu_node.facts.globs import matches_any
from gpu_node.inventories.wanted import DriverWanted

_DRIVER = re.compile(r"\d+\.\d+(\.\d+)?")
_COMMANDS = {"apt": "apt upgrade", "dnf": "dnf update", "yum": "yum update"}


@check("driver.unattended-updates")
def unattended_updates(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    updates = at.here.updates
    if updates is None or not updates.by or target(at.here, at.want) is None:
        return
    free = [name for name in ("kernel", "driver") if not _is_spared(name, updates)]
    if free:
        yield Fault(
            subject=", ".join(updates.by),
            found=f"may replace the {' and the '.join(free)}",
            wanted="updated only manually",
            fix='Unattended-Upgrade::Package-Blacklist {"linux-"; "nvidia"; "libnvidia";};'
            if "unattended-upgrades" in updates.by
            else "exclude=kernel* nvidia* kmod-nvidia* in /etc/yum.conf or /etc/dnf/dnf.conf",
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


@check("driver.upgrade-waiting")
def upgrade_waiting(at: At) -> Iterator[Fault]:
    upgrade = at.node.driver.upgrade
    if upgrade is None or _is_held(upgrade) or not replaces(upgrade):
        return
    gpus, candidate = models(at.node, at.wanted), branch(upgrade.candidate)
    last = [why for gpu in gpus if (why := against_gpu(candidate, gpu))]
    command = _COMMANDS.get(upgrade.manager, "upgrade")
    yield Fault(
        subject=SystemPackages((upgrade.package,)),
        found=f"{upgrade.version}; the next {command} installs {upgrade.candidate}",
        wanted=f"{upgrade.version}, held",
        cause=f"the new driver 'will ignore this GPU': {', '.join(last)}"
        if last
        else "the library is replaced while the old module stays loaded: each program ends with "
        "'Driver/library version mismatch', and the nodes differ until all are upgraded",
        fix=_fix(upgrade),
        severity="error" if last else None,
    )


def replaces(upgrade: Upgrade) -> bool:
    """Whether the candidate is another driver, and not the same one packaged again."""
    now, then = _driver(upgrade.version), _driver(upgrade.candidate)
    return then is not None and then != now


def _driver(package: str) -> str | None:
    """Return the driver's version in that of a package: 535.154.05 of 535.154.05-0ubuntu1."""
    match = _DRIVER.match(package)
    return match[0] if match else None


def _is_held(upgrade: Upgrade) -> bool:
    """Whether what is on hold keeps the whole driver.

    nvidia-driver needs exactly its version of the others. Without it a full upgrade replaces the
    module beside a held library, or removes nvidia-smi.
    """
    names = [held for held in upgrade.held if held != upgrade.package]
    return bool(names) or (bool(upgrade.held) and not any(map(brings_dkms, upgrade.parts)))


def _fix(upgrade: Upgrade) -> str:
    if upgrade.manager == "apt":
        return f"apt-mark hold {' '.join(upgrade.parts) or upgrade.package}"
    return (
        f"{upgrade.manager} versionlock add {upgrade.package} and the other packages of the driver "
        "(dnf-plugin-versionlock, or yum-plugin-versionlock); or exclude=nvidia* kmod-nvidia* in "
        f"/etc/{'dnf/dnf' if upgrade.manager == 'dnf' else 'yum'}.conf"
    )
