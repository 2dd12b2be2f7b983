"""Pre-flight of packages: the manager, who holds its lock, and the repositories it takes from."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.preflight.row import Row, Verdict, unknown
from gpu_node.facts.packages.sources import PackageSource
from gpu_node.facts.preflight.state import NewcomerState
from gpu_node.inventories.schema import NodeWanted

# How many repositories are named that do not answer.
_SHOWN = 3


def are_needed(wanted: NodeWanted | None) -> bool:
    """Whether the inventory wants something that is installed by packages."""
    if wanted is None:
        return False
    by_nccl = wanted.nccl is not None and wanted.nccl.packages is True
    return wanted.driver is not None or by_nccl


def judged(found: NewcomerState, wanted: NodeWanted | None) -> Iterator[Row]:
    """Yield the rows about packages."""
    grave: Verdict = "stop" if are_needed(wanted) else "warning"
    yield _manager(found, grave)
    yield _sources(found, grave)


def _manager(found: NewcomerState, grave: Verdict) -> Row:
    packages = found.packages
    subject = "package manager"
    if packages.manager is None:
        return unknown(subject, found.unreadable, "nccl.manager", grave)
    if packages.manager == "none":
        why = "neither apt-get nor dnf nor yum is installed: nothing can be installed"
        return Row(subject, "none", grave, why, "use a system of the apt or the rpm family")
    if packages.held is None:
        return unknown(subject, found.unreadable, "preflight.held")
    if packages.held:
        holders = ", ".join(f"pid {each.pid} ({each.command})" for each in packages.held)
        why = f"its lock is held: a deploy waits for {holders}"
        return Row(subject, packages.manager, "warning", why, "wait until it ends")
    return Row(subject, packages.manager)


def _sources(found: NewcomerState, grave: Verdict) -> Row:
    subject, sources = "repositories", found.packages.sources
    if sources is None:
        return unknown(subject, found.unreadable, "preflight.sources", grave)
    bad = [each for each in sources if each.state == "bad"]
    unclear = [each for each in sources if each.state == "unknown"]
    count = f"{len(sources) - len(bad) - len(unclear)} of {len(sources)} answer"
    if not sources:
        return Row(subject, "none", grave, "nothing can be installed", "add some, or a mirror")
    if bad:
        # yum and dnf end at the first one that is silent; apt takes what it has.
        passes = found.packages.manager == "apt-get" and len(bad) < len(sources)
        return Row(subject, count, "warning" if passes else grave, _reasons(bad), _cure(found))
    if unclear:
        return Row(
            subject, count, "warning", _reasons(unclear), "check manually whether they answer"
        )
    return Row(subject, count)


def _reasons(sources: list[PackageSource]) -> str:
    more = f"; and {len(sources) - _SHOWN} more" if len(sources) > _SHOWN else ""
    return "; ".join(f"{each.name}: {each.why}" for each in sources[:_SHOWN]) + more


def _cure(found: NewcomerState) -> str:
    system = found.system
    if system is not None and (system.id, system.version.partition(".")[0]) == ("centos", "7"):
        return (
            "CentOS 7 has ended and its mirror list is gone: in /etc/yum.repos.d "
            "comment out mirrorlist, and set baseurl to its archive (the vault) or to your mirror"
        )
    return (
        "correct the address, the proxy or the resolver; or disable repositories that you do not "
        "need"
    )
