"""Workspace: wanted directories with owner and mode, and the files that the source has."""

import sys
from collections.abc import Iterator
from functools import partial

from pyinfra import host, logger
from pyinfra.api import deploy

from gpu_node.deploy.engine.failures import apart
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.shared import is_writer
from gpu_node.deploy.files.replace import run
from gpu_node.deploy.toolchain import operations as toolchain
from gpu_node.deploy.workspace import operations as workspace
from gpu_node.deploy.workspace.rsync_run import another_user
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.ssh.mesh import has_mesh
from gpu_node.drift.units import size
from gpu_node.drift.workspace import rules
from gpu_node.drift.workspace.copy import Copy, copy_of
from gpu_node.drift.workspace.deletions import backups, keeps
from gpu_node.facts.probe.file_systems import only
from gpu_node.inventories.escape import visible
from gpu_node.inventories.fields.paths import CONTROLLER, Directory
from gpu_node.inventories.plurals import counted, few
from gpu_node.inventories.wanted import WorkspaceWanted

# How many files a run names one by one; a dry run names them all. a deploy cannot ask pyinfra
# else that it is one.
_SHOWN = sys.maxsize if "--dry" in sys.argv else 50


@deploy("Programs")
def programs(plan: Plan) -> None:
    """Install the program that copies the workspace and Python environments, before any copy."""
    manager = plan.state.nccl.manager
    if plan.repairs(rules.rsync_missing) and manager is not None:
        toolchain.program(
            name="Install rsync",
            manager=manager,
            program="rsync",
            allow_disruption=plan.allow_disruption,
        )


@deploy("Workspace")
def converge(plan: Plan) -> None:
    """Repair what the workspace rules found."""
    bad = {subject.path for subject in plan.subjects(Path, rules.directory)}
    directories = [
        directory for directory in plan.wanted.directories or () if directory.path in bad
    ]
    for directory in directories:
        with apart(host, directory.path):
            _directory(f"Make {directory.path} a directory as wanted", directory)
            if directory.mode and rules.lacks_below(plan.state.workspace, directory):
                workspace.below(
                    name=f"Add permissions below {directory.path}",
                    path=directory.path,
                    mode=directory.mode,
                )
    for wanted in plan.wanted.every_workspace:
        with apart(host, wanted.path):
            _copy(plan, wanted)


def _copy(plan: Plan, wanted: WorkspaceWanted) -> None:
    is_copied = partial(_is_copied, path=wanted.path)
    if not is_copied(plan):
        return
    if not is_writer(
        plan, wanted.path, lambda state: only(state.workspace.places, wanted.path), is_copied
    ):
        return
    copy = copy_of(plan.state, wanted, plan.nodes)
    if copy is not None and copy.theirs is not None and plan.nodes.itself is not None:
        backup = f"{backups(copy.path)}/{run()}" if keeps(copy, wanted) else ""
        # In a dry run an operation has only one line.
        for line in lines_of(copy, backup):
            logger.info(f"{host.print_prefix}{line}")
        workspace.files(
            # The same name for all nodes: then pyinfra regards it as one operation.
            name=f"Copy {copy.path} from {copy.source}",
            source=copy.source,
            origin=copy.origin,
            path=copy.path,
            digest=copy.theirs.digest,
            peer=plan.nodes.itself.model_dump(),
            excludes=list(wanted.exclude or ()),
            removals=copy.removals,
            at_once=copy.replaces_folder,
            version=_version(plan, copy),
            total=copy.bytes,
            owner="" if copy.source == CONTROLLER else another_user(host),
            backup=backup,
            keep=wanted.backup.keep,
            allow_disruption=plan.allow_disruption,
            checksum=wanted.checksum is True,
            relays=has_mesh(plan.wanted, plan.nodes),
        )
    # rsync gives a folder the mode of the source's folder.
    for directory in plan.wanted.directories or ():
        if directory.path == wanted.path:
            _directory(f"Keep {directory.path} as wanted", directory)


def _is_copied(plan: Plan, path: str) -> bool:
    subjects = plan.subjects(Path, rules.missing, rules.differs)
    return any(subject.path == path for subject in subjects)


def _directory(name: str, wanted: Directory) -> None:
    workspace.directory(
        name=name, path=wanted.path, owner=wanted.owner, group=wanted.group, mode=wanted.mode
    )


def _version(plan: Plan, copy: Copy) -> str:
    """Return the version of the source's rsync."""
    if copy.source == CONTROLLER:
        return plan.state.workspace.source_rsync or ""
    return plan.nodes.states[copy.source].workspace.rsync or ""


def _amount(copy: Copy) -> str:
    """Return, as text, how much is sent and deleted."""
    sent = len(copy.send) + len(copy.change)
    sending = f"send {counted(sent, 'entry', 'entries')}, {size(copy.bytes)}"
    return f"{sending}, delete {len(copy.remove)}" if copy.remove else sending


def lines_of(copy: Copy, backup: str = "") -> Iterator[str]:
    """Yield how much is sent and deleted, the names, and what exists but is not sent.

    `backup` is the folder for deleted and overwritten files.
    """
    yield f"{copy.path}: {_amount(copy)}"
    for verb, paths in (("send", [*copy.send, *copy.change]), ("delete", copy.remove)):
        yield from (f"{verb} {visible(path)}" for path in few(paths, _SHOWN))
    if backup:
        yield f"keep what is deleted or overwritten in {backup}"
    if copy.passed_over:
        yield visible(copy.passed_over)
