"""Workspace rules: directories are as wanted, and each node has the files that its source has."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from shlex import quote

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.env.training_user import missing_user
from gpu_node.drift.nccl.environment_copy import can_install_rsync, is_asked_to_copy
from gpu_node.drift.nccl.environment_copy import missing as missing_environments
from gpu_node.drift.units import size
from gpu_node.drift.workspace.copy import Copy, can_copy, copy_of, is_source
from gpu_node.drift.workspace.deletions import Objection, objection
from gpu_node.facts.node import NodeState
from gpu_node.facts.workspace.state import Directory, Tree, WorkspaceState
from gpu_node.inventories.fields.paths import CONTROLLER, WRITTEN_BY_OTHERS, is_below, relative
from gpu_node.inventories.fields.paths import Directory as DirectoryWanted
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.wanted import NodeWanted, WorkspaceWanted


@check("workspace.directory")
def directory(at: At) -> Iterator[Fault]:
    known = at.node.workspace.directories
    for each in at.wanted.directories or ():
        state = known.get(each.path) if known is not None else None
        if state is None and at.newcomer:
            continue  # the pre-flight check does not ask: the deploy makes the folder
        if state is None or state.problem:
            reason = state.problem if state else "no answer"
            yield _fault(each, f"unreadable: {reason}", fixable=False)
        elif state.exists and not state.is_directory:
            yield _fault(each, "not a directory", fixable=False)
        elif account := locked_out(state, each):
            yield _of_home(each, account)
            continue
        elif unlike := lacking(state, each):
            # Else the deploy would leave it half-made: env.user-missing comes first.
            has_owner = each.owner is None or each.owner != missing_user(at.node)
            yield replace(_fault(each, unlike, fixable=True), fixable=has_owner)
        if state is not None and state.is_directory and each.recursive:
            yield from _below(at.node.workspace, each)


def locked_out(folder: Directory, wanted: DirectoryWanted) -> str:
    """Return the account whose keys sshd would not take any more (StrictModes); empty if none."""
    mode = int(wanted.mode or "700", 8)
    if mode & WRITTEN_BY_OTHERS and wanted.recursive and folder.within:
        return folder.within
    closed = mode & 0o500 != 0o500 or wanted.owner not in (None, folder.home)
    return folder.home if mode & WRITTEN_BY_OTHERS or closed else ""


def _of_home(wanted: DirectoryWanted, account: str) -> Fault:
    return replace(
        _fault(wanted, f"the home of {account}, or it has that below it", fixable=False),
        cause="sshd takes no key where another account owns the home, or others can write in it "
        f"(StrictModes): {account} could not log in any more, so no deploy makes this change",
        fix=f'in the inventory write owner: {account} and mode: "755", or name a directory outside '
        "homes",
        stops=False,
    )


def lacks_below(state: WorkspaceState, wanted: DirectoryWanted) -> bool:
    """Whether entries below a directory lack a bit that is wanted for them."""
    below = (state.below or {}).get(wanted.path)
    return bool(wanted.recursive) and below is not None and below.folders + below.files > 0


def _below(state: WorkspaceState, wanted: DirectoryWanted) -> Iterator[Fault]:
    """Yield the fault of what is below a directory; one that was not walked whole is reported."""
    below = (state.below or {}).get(wanted.path)
    lacks = lacks_below(state, wanted)
    if below is not None and not lacks and not below.partial:
        return
    counts = "not known" if below is None else f"{below.entries} entries examined"
    if below is not None and lacks:
        counts = f"{counted(below.folders, 'folder')} and {counted(below.files, 'file')} without it"
        counts += f", such as {below.example}"
    ended = "no answer" if below is None else below.partial
    folders, files = chmod_words(wanted.mode or "")
    find = f"find {quote(wanted.path)} -xdev -name .ssh -prune -o"
    yield Fault(
        subject=Path(wanted.path),
        found=f"below it: {counts}{f'; not complete: {ended}' if ended else ''}",
        wanted=f"mode {wanted.mode} below it: {folders} for folders, {files or 'no bit'} for files",
        cause="a folder without x cannot be entered, a file without r cannot be read: training "
        "fails only on this node, with Permission denied",
        fix=f"{find} -type d -exec chmod {folders} {{}} +"
        + (f"; {find} -type f -exec chmod {files} {{}} +" if files else "")
        if lacks
        else f"check it as root: find {quote(wanted.path)} -xdev -type d ! -perm -{wanted.mode}",
        fixable=lacks,
        severity=None if lacks else "warning",
        stops=False,
    )


def chmod_words(mode: str) -> tuple[str, str]:
    """Return what chmod(1) adds to folders, and to files: "u+rwx,g+rwx,o+rx", "u+rw,g+rw,o+r".

    Files get no bit beside those to read and write; theirs is empty where the mode has none.
    """
    special, digits = f"{mode:>04}"[0], [int(each) for each in mode[-3:]]
    marks = ("s" * bool(int(special) & 4), "s" * bool(int(special) & 2), "")
    folders = [
        f"{who}+{_letters(bits)}{mark}"
        for who, bits, mark in zip("ugo", digits, marks, strict=True)
        if bits or mark
    ]
    files = [
        f"{who}+{_letters(bits & 6)}" for who, bits in zip("ugo", digits, strict=True) if bits & 6
    ]
    sticky = ["+t"] if int(special) & 1 else []
    return ",".join([*folders, *sticky]), ",".join(files)


def _letters(bits: int) -> str:
    return "".join(letter for bit, letter in ((4, "r"), (2, "w"), (1, "x")) if bits & bit)


def lacking(folder: Directory, wanted: DirectoryWanted) -> str:
    """Return how a directory is, where that is not as wanted; empty if it is."""
    if not folder.exists:
        return "missing"
    lacks = []
    if wanted.mode is not None and mode_of(folder, wanted) != folder.mode:
        lacks.append(f"mode {folder.mode}")
    if wanted.owner is not None and folder.owner != wanted.owner:
        lacks.append(f"owner {folder.owner}")
    if wanted.group is not None and folder.group != wanted.group:
        lacks.append(f"group {folder.group}")
    return ", ".join(lacks)


def mode_of(folder: Directory, wanted: DirectoryWanted) -> str:
    """Return the mode that a directory gets: where three digits are wanted, setgid stays."""
    mode = wanted.mode or folder.mode
    special = folder.mode[:-3] if len(mode) == 3 else mode[:-3]
    return f"{special.lstrip('0')}{mode[-3:]}"


def _fault(wanted: DirectoryWanted, found: str, fixable: bool) -> Fault:
    details = [
        f"{name} {value}"
        for name, value in (("mode", wanted.mode), ("owner", wanted.owner), ("group", wanted.group))
        if value is not None
    ]
    options = (("-m", wanted.mode), ("-o", wanted.owner), ("-g", wanted.group))
    given = [word for option, value in options if value for word in (option, value)]
    words = shlex.join(["install", "-d", *given, wanted.path])
    ids = [
        f"{what} {name}" for what, name in (("user", wanted.owner), ("group", wanted.group)) if name
    ]
    words += f"; {' and '.join(ids)} must exist" if ids else ""
    return Fault(
        subject=Path(wanted.path),
        found=found,
        wanted=", ".join(["a directory", *details]),
        fix=words if fixable else f"check it: ls -ld {quote(wanted.path)}",
        fixable=fixable,
        stops=found in ("missing", "not a directory"),
    )


@check("workspace.exclude-absolute")
def exclude_absolute(at: At) -> Iterator[Fault]:
    for each in at.wanted.every_workspace:
        yield from _absolute(each)


def _absolute(wanted: WorkspaceWanted) -> Iterator[Fault]:
    folders = (wanted.origin or wanted.path, wanted.path)
    for pattern in wanted.exclude or ():
        meant = relative(pattern, folders)
        if meant:
            where = "" if is_below(pattern, folders) else f", if that is below {folders[0]}"
            yield Fault(
                subject=pattern,
                found="an absolute path",
                wanted=meant,
                fix=f"write {meant} in workspace.exclude{where}",
            )


@check("workspace.rsync-missing")
def rsync_missing(at: At) -> Iterator[Fault]:
    on_controller = bool(at.wanted.every_workspace) and at.node.workspace.source_rsync == ""
    if at.node.workspace.rsync == "" and (needs := _needs_rsync(at.node, at.wanted, at.nodes)):
        yield Fault(
            subject="rsync",
            found="no rsync",
            wanted=_RSYNC,
            cause=f"without it {needs}",
            fixable=can_install_rsync(at.node),
        )
    if on_controller:
        yield Fault(
            subject=CONTROLLER,
            found="no rsync",
            wanted=_RSYNC,
            cause=f"without it {_UNKNOWN}",
            fix="on this machine: apt-get install rsync, or yum install rsync",
            fixable=False,
        )


_RSYNC = "rsync 3.0 or newer"
_UNKNOWN = "the workspace can be neither compared nor copied"


def _needs_rsync(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> str:
    """What the node cannot do without an rsync, of what is asked of it; empty where nothing is."""
    if wanted.workspace is not None:
        return _UNKNOWN
    copies = wanted.nccl is not None and wanted.nccl.copy_from not in (None, nodes.name)
    if (copies and missing_environments(state, wanted.nccl)) or is_asked_to_copy(
        wanted.nccl, nodes
    ):
        return "no Python environment can be copied"
    return ""


@check("workspace.missing")
def missing(at: At) -> Iterator[Fault]:
    for each in at.wanted.every_workspace:
        yield from _missing_one(at.node, each, at.nodes)


def _missing_one(state: NodeState, wanted: WorkspaceWanted, nodes: Nodes) -> Iterator[Fault]:
    origin = wanted.origin or wanted.path
    if is_source(wanted, nodes):
        own = state.workspace.trees.get(origin)
        if own is not None and not own.exists:
            yield _missing(Path(origin), "on this node", False, _unmounted(own))
        return
    copy = copy_of(state, wanted, nodes)
    if copy is None:
        return
    against = objection(copy, wanted, nodes)
    if copy.source == CONTROLLER and copy.theirs is not None and not copy.theirs.exists:
        yield _missing(Path(origin, "the controller"), "there", False, _unmounted(copy.theirs))
    if copy.ours is not None and not copy.ours.exists:
        there = copy.theirs is not None and copy.theirs.exists
        fixable = there and can_copy(state, wanted, nodes)
        yield _missing(Path(copy.path), f"as on {copy.source}{_amount(copy)}", fixable, against)


def _unmounted(source: Tree) -> Objection | None:
    """Return why a source that is missing may be there after all."""
    point = source.unmounted
    reason = f"{point} of /etc/fstab is not mounted there"
    return Objection(reason, f"mount {point} there", "administrator") if point else None


def _missing(subject: Path, where: str, fixable: bool, against: Objection | None = None) -> Fault:
    fix = "copy it with rsync" if fixable else "find out where it is, and set it in workspace"
    return Fault(
        subject=subject,
        found="missing",
        wanted=f"the workspace, {where}",
        fix=against.way if against else fix,
        who=against.who if against else None,
        fixable=fixable and against is None,
    )


def _amount(copy: Copy) -> str:
    if copy.theirs is None or not copy.theirs.digest:
        return ""
    return f": {counted(copy.theirs.files, 'file')}, {size(copy.theirs.bytes)}"


@check("workspace.differs")
def differs(at: At) -> Iterator[Fault]:
    for each in at.wanted.every_workspace:
        yield from _differs(at.node, each, at.nodes)


def _differs(state: NodeState, wanted: WorkspaceWanted, nodes: Nodes) -> Iterator[Fault]:
    copy = copy_of(state, wanted, nodes)
    if copy is None:
        return
    is_there = copy.ours is not None and copy.ours.exists
    if is_there and copy.source != CONTROLLER and copy.source not in nodes.states:
        yield _not_compared(copy)
    if not copy.is_known:
        return
    if copy.is_same:
        yield from _same_as_nothing(copy)
        return
    against = objection(copy, wanted, nodes)
    yield Fault(
        subject=Path(copy.path),
        found=copy.shown,
        wanted=f"as on {copy.source}{_amount(copy)}",
        fix=against.way if against else _by_rsync(copy),
        who=against.who if against else None,
        fixable=against is None and can_copy(state, wanted, nodes),
    )


def _by_rsync(copy: Copy) -> str:
    """Return the command that copies a workspace; its patterns stay in the inventory."""
    if copy.source == CONTROLLER:
        return f"on this machine: rsync -a {quote(copy.origin)}/ to {quote(copy.path)}/ of the node"
    there = quote(f"{copy.source}:{copy.origin}/")
    return f"rsync -a {there} {quote(copy.path)}/, with an --exclude for each pattern of exclude"


def _same_as_nothing(copy: Copy) -> Iterator[Fault]:
    """Yield a fault where a node is like a source whose files are on a mount that is missing."""
    point = copy.theirs.unmounted if copy.theirs else ""
    if point:
        yield Fault(
            subject=Path(copy.path),
            found=f"compared with {copy.source}, where {point} of /etc/fstab is not mounted",
            wanted=f"as on {copy.source}",
            cause="the files of the source are on that mount",
            fix=f"mount {point} on {copy.source}",
            who="administrator",
            fixable=False,
            severity="warning",
        )


def _not_compared(copy: Copy) -> Fault:
    return Fault(
        subject=Path(copy.path),
        found=f"not compared: {copy.source} gave no answer in this run",
        wanted=f"as on {copy.source}",
        cause="what could not be compared never counts as correct",
        fix=f"run this for both this node and {copy.source}",
        fixable=False,
        severity="warning",
    )
