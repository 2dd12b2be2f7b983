"""NCCL: each Python environment has the one wheel that its torch wants, the system its packages."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyinfra.api import deploy
from pyinfra.api.exceptions import PyinfraError

from deploy.operations import nccl
from deploy.plan import Plan
from deploy.proof import refuse
from deploy.shared import is_writer, may_be_shared, wishes_differ
from drift.copied import machine, origin
from drift.libnccl import BY_MANAGER, release
from drift.rules.nccl import kept_wheel, wrong_wheels
from facts.node import placed
from inventories.cluster import NO_FILE
from inventories.packages import FAMILIES
from inventories.schema import NcclWanted

_WHEELS = ("nccl.duplicate-wheels", "nccl.wheel-damaged")
_PACKAGES = (
    *("nccl.duplicate-packages", "nccl.package-mismatch", "nccl.package-missing"),
    "nccl.package-damaged",
)


@deploy("Python environments")
def environments(plan: Plan) -> None:
    """Copy the environments that are missing, from the node that the inventory names."""
    wanted, itself = plan.wanted.nccl, plan.among.itself
    if wanted is None or wanted.copy_from is None or itself is None:
        return
    for path in plan.subjects("nccl.environment-missing"):
        theirs = origin(wanted, path, plan.among)
        if theirs is not None and is_writer(
            plan, path, partial(placed, path), partial(_lacks, path)
        ):
            nccl.environment(
                name=f"Copy {path} from {wanted.copy_from}",
                path=path,
                source=wanted.copy_from,
                peer=itself.model_dump(),
                version=plan.among.found[wanted.copy_from].workspace.rsync or "",
                machine=machine(theirs),
            )


@deploy("NCCL")
def converge(plan: Plan) -> None:
    """Repair what the NCCL rules found; what is missing is copied before, and judged after."""
    wanted = plan.wanted.nccl
    if wanted is not None:
        _wheels(plan, wanted)
        _packages(plan, wanted)


def _wheels(plan: Plan, wanted: NcclWanted) -> None:
    for prefix, environment in plan.found.nccl.environments.items():
        keep = kept_wheel(environment, wanted) if environment else None
        if environment is None or keep is None or not _has_bad_wheel(plan, prefix):
            continue
        lies = partial(placed, prefix)
        if wishes_differ(plan, prefix, lies, _version):
            continue
        if not is_writer(plan, prefix, lies, partial(_has_bad_wheel, prefix=prefix)):
            continue
        nccl.wheels(
            name=f"Make {keep} whole in {prefix}",
            environment=prefix,
            keep=keep,
            remove=[wheel.name for wheel in wrong_wheels(environment, wanted)],
            allow_disruption=plan.allow_disruption,
            fetch=wanted.fetch,
            shared=may_be_shared(lies(plan.found)),
        )


def _version(plan: Plan) -> str | None:
    return plan.wanted.nccl.version if plan.wanted.nccl else None


def _lacks(path: str, plan: Plan) -> bool:
    return path in plan.subjects("nccl.environment-missing")


def _has_bad_wheel(plan: Plan, prefix: str) -> bool:
    """Whether an environment's wheels are to be repaired; the system's library is no wheel."""
    environment = plan.found.nccl.environments.get(prefix)
    if environment is None:
        return False
    rules = {each.rule for each in plan.findings if each.fixable and each.subject == prefix}
    loads_wheel = environment.loads is None or environment.loads.reason != "ld.so.cache"
    return not rules.isdisjoint(_WHEELS) or (loads_wheel and "nccl.loaded-mismatch" in rules)


def _packages(plan: Plan, wanted: NcclWanted) -> None:
    found = plan.found.nccl
    version = release(found, wanted)
    if not plan.repairs(*_PACKAGES, "nccl.package-unheld") or version is None or not found.manager:
        return
    names = ", ".join(BY_MANAGER[found.manager])
    locked = [each for each in plan.findings if each.rule == "nccl.package-locked"]
    if locked and not plan.override_locks:
        refuse(name=f"Leave {names}: an administrator's lock holds them", findings=locked)
        return
    verb = "Install and hold" if plan.repairs(*_PACKAGES) else "Hold"
    nccl.packages(
        name=f"{verb} {names} {version}",
        version=version,
        manager=found.manager,
        url=_url(found.manager, wanted),
        key=_key(wanted),
        # To hold what is there takes nothing from a running job.
        allow_disruption=plan.allow_disruption or not plan.repairs(*_PACKAGES),
        override_locks=plan.override_locks,
    )


def _url(manager: str, wanted: NcclWanted) -> str:
    """Return the repository for a node's family; empty where its own ones have the packages."""
    if wanted.repository is None:
        return ""
    of_apt = FAMILIES.get(manager) == "apt" and wanted.repository.apt
    return of_apt or wanted.repository.url


def _key(wanted: NcclWanted) -> str:
    """Return the text of the repository's key, or the word for none."""
    written = wanted.repository.key if wanted.repository else ""
    if not written or written in NO_FILE:
        return written
    try:
        return Path(written).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PyinfraError(f"nccl_repository_key: {written}: {error}") from error
