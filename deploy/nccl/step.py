"""NCCL: each Python environment has only the wheel that its torch needs; the system's packages."""

from functools import partial
from pathlib import Path

from pyinfra import host, logger
from pyinfra.api import deploy
from pyinfra.api.exceptions import PyinfraError

from gpu_node.deploy.engine.failures import apart
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.proof import refuse
from gpu_node.deploy.engine.shared import is_writer, may_be_shared, versions_differ
from gpu_node.deploy.nccl import operations as nccl
from gpu_node.deploy.nccl.pip import supply
from gpu_node.deploy.workspace.rsync_run import another_user
from gpu_node.drift.driver.target import models
from gpu_node.drift.engine.subject import Prefix
from gpu_node.drift.nccl import rules, rules_environments, rules_system
from gpu_node.drift.nccl.environment_copy import machine, origin
from gpu_node.drift.nccl.libnccl import BY_MANAGER, release, repository_url
from gpu_node.drift.toolchain.rules_operators import brought
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeState, placed
from gpu_node.inventories.cluster import NO_FILE
from gpu_node.inventories.escape import visible
from gpu_node.inventories.wanted import NcclWanted

_WHEELS = (rules.duplicate_wheels, rules.wheel_damaged)
_PACKAGES = (
    *(rules_system.duplicate_packages, rules_system.package_mismatch, rules_system.package_missing),
    rules_system.package_damaged,
)


@deploy("Python environments")
def environments(plan: Plan) -> None:
    """Copy the environments that are missing, from the node that the inventory names."""
    wanted, itself = plan.wanted.nccl, plan.nodes.itself
    if wanted is None or wanted.copy_from is None or itself is None:
        return
    for path in _missing(plan):
        theirs = origin(wanted, path, plan.nodes)
        if theirs is not None and is_writer(
            plan, path, partial(placed, path), partial(_lacks, path)
        ):
            _report_operators(plan, path, theirs, plan.nodes.states[wanted.copy_from])
            with apart(host, path):
                nccl.environment(
                    name=f"Copy {path} from {wanted.copy_from}",
                    path=path,
                    source=wanted.copy_from,
                    peer=itself.model_dump(),
                    version=plan.nodes.states[wanted.copy_from].workspace.rsync or "",
                    machine=machine(theirs),
                    trains=another_user(host),
                )


def has_copies(plan: Plan) -> bool:
    """Whether a node of the run lacks an environment: its source must log in there."""
    return any(state.nccl.absent for state in plan.nodes.states.values())


def _report_operators(plan: Plan, path: str, theirs: Environment, source: NodeState) -> None:
    """Report compiled operators that do not run here: a copy has all files of the source."""
    if words := brought(
        path, theirs, plan.state, source, models(plan.state, plan.wanted), plan.nodes
    ):
        logger.warning(f"{host.print_prefix}{visible(words)}")


@deploy("NCCL")
def converge(plan: Plan) -> None:
    """Repair what the NCCL rules found; missing environments are copied first, then judged."""
    wanted = plan.wanted.nccl
    if wanted is not None:
        _wheels(plan, wanted)
        with apart(host, "the system's libnccl"):
            _packages(plan, wanted)


def _wheels(plan: Plan, wanted: NcclWanted) -> None:
    for prefix, environment in plan.state.nccl.environments.items():
        keep = rules.kept_wheel(environment, wanted) if environment else None
        if environment is None or keep is None or not _has_bad_wheel(plan, prefix):
            continue
        lies = partial(placed, prefix)
        if versions_differ(plan, prefix, lies, _version, rules.loaded_mismatch):
            continue
        if not is_writer(plan, prefix, lies, partial(_has_bad_wheel, prefix=prefix)):
            continue
        with apart(host, prefix):
            nccl.wheels(
                name=f"Repair {keep} in {prefix}",
                environment=prefix,
                keep=keep,
                remove=[wheel.name for wheel in rules.wrong_wheels(environment, wanted)],
                allow_disruption=plan.allow_disruption,
                fetch=wanted.fetch,
                shared=may_be_shared(lies(plan.state)),
                **supply(plan, [keep]),
            )


def _version(plan: Plan) -> str | None:
    return plan.wanted.nccl.version if plan.wanted.nccl else None


def _lacks(path: str, plan: Plan) -> bool:
    return path in _missing(plan)


def _missing(plan: Plan) -> list[str]:
    missing = plan.subjects(Prefix, rules_environments.environment_missing)
    return [each.environment for each in missing]


def _has_bad_wheel(plan: Plan, prefix: str) -> bool:
    """Whether an environment's wheels must be repaired; the system's library is not a wheel."""
    bad = plan.subjects(Prefix, *_WHEELS)
    loaded = plan.subjects(rules.LoadedLibrary, rules.loaded_mismatch)
    return prefix in {each.environment for each in bad} or any(
        each.environment == prefix and each.owner == "wheel" for each in loaded
    )


def _packages(plan: Plan, wanted: NcclWanted) -> None:
    state = plan.state.nccl
    version = release(state, wanted)
    if (
        not plan.repairs(*_PACKAGES, rules_system.package_unheld)
        or version is None
        or not state.manager
    ):
        return
    names = ", ".join(BY_MANAGER[state.manager])
    locked = plan.guards(rules_system.package_locked)
    if locked and not plan.override_locks:
        refuse(name=f"Keep {names}: locked by an administrator", findings=locked)
        return
    verb = "Install and hold" if plan.repairs(*_PACKAGES) else "Hold"
    nccl.packages(
        name=f"{verb} {names} {version}",
        version=version,
        manager=state.manager,
        url=repository_url(state.manager, wanted),
        key=_key(wanted),
        # A hold of installed packages does not disturb a running job.
        allow_disruption=plan.allow_disruption or not plan.repairs(*_PACKAGES),
        override_locks=plan.override_locks,
    )


def _key(wanted: NcclWanted) -> str:
    """Return the text of the repository's key, or the word for no key."""
    written = wanted.repository.key if wanted.repository else ""
    if not written or written in NO_FILE:
        return written
    try:
        return Path(written).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PyinfraError(f"nccl_repository_key: {written}: {error}") from error
