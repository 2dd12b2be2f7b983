"""What a copy of the workspace would destroy, and why it then waits for a person."""

from dataclasses import dataclass

from gpu_node.drift.engine.finding import Who
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.units import size
from gpu_node.drift.workspace.copy import Copy
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.inventories.wanted import WorkspaceWanted

ALLOW = "--data allow_deletions=true"
_WAY = f"if it is right, run the deploy with {ALLOW}"
_SUFFIX = ".gpu-node-backup"


@dataclass(frozen=True)
class Objection:
    """Why a copy is not made, and what a person does about it."""

    reason: str
    fix: str
    who: Who = "user"

    @property
    def way(self) -> str:
        """Both, for a line that has no room for a cause."""
        return f"{self.reason}: {self.fix}"


def objection(copy: Copy, wanted: WorkspaceWanted, nodes: Nodes) -> Objection | None:
    """Return why a copy that would change something is held back; None where it is not."""
    if copy.ours is not None and copy.ours.unmounted:
        point = copy.ours.unmounted
        reason = f"{point} of /etc/fstab is not mounted on this node"
        way = (
            f"mount {point}, or remove its line from /etc/fstab if nothing should be mounted there"
        )
        return Objection(reason, way, "administrator")
    if not nodes.allow_deletions and (reason := _doubt(copy, wanted)):
        return Objection(reason, f"check {copy.origin} on {copy.source}; {_WAY}", "deploy")
    return _without_space(copy, wanted) or _without_room(copy, wanted)


def _without_space(copy: Copy, wanted: WorkspaceWanted) -> Objection | None:
    """Return why the file system cannot take what is sent; what is kept stays on it as well."""
    if copy.room is None:
        return None
    needed = copy.bytes - (0 if keeps(copy, wanted) else copy.overwritten)
    if needed <= copy.room:
        return None
    return Objection(
        f"the copy needs {size(needed)}, and the file system of {copy.path} has {size(copy.room)} "
        "free",
        "make room there, or leave files out (workspace: exclude)",
    )


def _doubt(copy: Copy, wanted: WorkspaceWanted) -> str:
    """Return why the source may be the wrong one; empty where nothing suggests it."""
    if copy.theirs is not None and copy.theirs.unmounted:
        return f"{copy.theirs.unmounted} of /etc/fstab is not mounted on {copy.source}"
    files, count = copy.removed
    all_files, all_bytes = copy.held
    if copy.remove and copy.is_source_empty:
        source = f"the source {copy.origin} on {copy.source}"
        return f"{source} has no file, and every file here would be deleted"
    share = max(_percent(files, all_files), _percent(count, all_bytes))
    if share <= wanted.delete_limit:
        return ""
    return (
        f"{files} of {all_files} files and {size(count)} of {size(all_bytes)} would be deleted, "
        f"more than {wanted.delete_limit}% (workspace: delete_limit)"
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def keeps(copy: Copy, wanted: WorkspaceWanted) -> bool:
    """Whether a copy puts files of the node aside."""
    return wanted.backup.keep > 0 and bool(copy.remove or copy.change)


def _without_room(copy: Copy, wanted: WorkspaceWanted) -> Objection | None:
    """Return why what is deleted or overwritten cannot be kept."""
    if not keeps(copy, wanted):
        return None
    if copy.ours is not None and copy.ours.is_mount:
        reason = f"{copy.path} is a mount point, and a backup beside it is on another file system"
        return Objection(reason, "set workspace: {backup: {keep: 0}} to copy without a backup")
    most = wanted.backup.max
    if copy.kept <= most:
        return None
    return Objection(
        f"the backup of what is deleted and overwritten needs {size(copy.kept)}, more than "
        f"{format_size(most)} (workspace: backup: max)",
        f"raise workspace: backup: max, or set keep: 0 to copy without a backup (--data "
        f"workspace_backup_max={_above(copy.kept)})",
    )


def _above(count: int) -> str:
    """Return a size in whole GiB that is enough."""
    return f"{-(-count // (1 << 30))}G"


def backups(path: str) -> str:
    """Return the folder with the backups of a workspace: beside it, out of sight."""
    above, _, name = path.rstrip("/").rpartition("/")
    return f"{above}/.{name}{_SUFFIX}"
