"""Operations on directories and on the workspace.

pyinfra's files.rsync is always "changed", shows nothing in a dry run and quotes nothing (#737,
#918, #1156); files.directory with recursive would change everything below.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, operation

from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.operations import Commands
from gpu_node.deploy.workspace.rsync import Removal, send
from gpu_node.drift.workspace.rules import chmod_words, lacking, locked_out, mode_of
from gpu_node.facts.workspace.below import MOST_ENTRIES, Below, file_bits
from gpu_node.facts.workspace.state import BelowFact, FilesFact, FolderFact
from gpu_node.facts.workspace.state import Directory as Found
from gpu_node.inventories.fields.paths import Directory

# How long one run changes entries below a directory; the next one continues.
BELOW_SECONDS = 600


@operation()
def directory(
    path: str, owner: str | None = None, group: str | None = None, mode: str | None = None
) -> Commands:
    """
    Create a directory, or set its owner and mode; everything below it stays as it is.

    + path: where it is
    + owner: a user of the node, if one is wanted
    + group: a group of the node
    + mode: octal, eg ``775``
    """
    wanted = Directory(path=path, owner=owner, group=group, mode=mode)
    current = Found.model_validate(host.get_fact(FolderFact, path=path))
    if current.problem:
        # Its state is unknown: mkdir reports why, and changes nothing that exists.
        yield script("directory", path=path, mode="", owner="", group="")
        return
    if locked_out(current, wanted):
        host.noop(f"{path} stays as it is: its account could not log in any more")
        return
    if not lacking(current, wanted):
        host.noop(f"{path} is as wanted")
        return
    yield script(
        "directory",
        path=path,
        mode=mode_of(current, wanted) if mode else "",
        owner=owner or "",
        group=group or "",
    )


@operation()
def below(path: str, mode: str) -> Commands:
    """
    Add permission bits to all entries below a directory; no bit is taken away.

    + path: the directory
    + mode: octal, eg ``775``; files get only its bits to read and write
    """
    known = host.get_fact(BelowFact, path=path, mode=mode)
    entries = Below.model_validate(known)
    if not entries.partial and not entries.folders + entries.files:
        host.noop(f"{path} has these bits below it")
        return
    folders, files = chmod_words(mode)
    yield script(
        "directory_below",
        path=path,
        folders=mode,
        files=file_bits(mode),
        add_folders=folders,
        add_files=files,
        most=str(MOST_ENTRIES),
        patience=str(BELOW_SECONDS),
    )


@operation()
def files(
    source: str,
    origin: str,
    path: str,
    digest: str,
    peer: Mapping[str, Any],
    excludes: Sequence[str] = (),
    removals: int = 0,
    at_once: bool = False,
    version: str = "",
    total: int = 0,
    owner: str = "",
    backup: str = "",
    keep: int = 0,
    allow_disruption: bool = False,
    checksum: bool = False,
    relays: bool = False,
) -> Commands:
    """
    Copy the workspace to this node by rsync; files that it already has are not sent again.

    + source: ``controller``, or the node that sends it
    + origin: its path on the source
    + path: its path on this node
    + digest: of the list of the source's files
    + peer: this node's name, address and port, as the source reaches it
    + excludes: patterns of files that are neither sent nor deleted
    + removals: the maximum number of entries to delete that the source does not have
    + at_once: they are deleted before files are sent
    + version: of the source's rsync
    + total: bytes to send
    + owner: the owner of the folder if it is created, if not the SSH user
    + backup: the folder of the node that gets what is deleted or overwritten, eg
      ``/data/.ws.gpu-node-backup/20261122T204829Z-0a1b2c``
    + keep: how many such folders stay
    + allow_disruption: delete files although a process of this node holds a GPU
    + checksum: compare files of equal size and time by their content
    + relays: nodes that have all of it send it to others; they log in to each other
    """
    tree = host.get_fact(FilesFact, path=path, excludes=list(excludes))
    if tree["digest"] == digest:
        host.noop(f"{path} is as on {source}")
        return
    allow = "yes" if allow_disruption or not removals else "no"
    given_folder = {"owner": owner, "allow": allow, "backup": backup}
    yield script("workspace", path=path, **given_folder, backups=replacement.backups())
    removal = Removal(removals, backup, at_once, owner, allow, checksum)
    given = [source, origin, path, list(excludes), version, dict(peer), total, removal]
    yield FunctionCommand(send, given, {"relayed": digest if relays else ""})
    if backup:
        folder = backup.rpartition("/")[0]
        yield script("workspace_backups", folder=folder, backup=backup, keep=str(keep))
