"""Where this user keeps reports and the key of anonymous ones, unless others could change it."""

import fcntl
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from gpu_node.inventories import writers
from gpu_node.inventories.errors import reason

NAME, KEY_NAME = "history.db", "anonymous.key"
_KEY_BYTES = 32


class Refused(Exception):
    """A place that is not used; `str()` is the reason."""


def path() -> Path:
    """Return the file of the store: in the user's folder for state (XDG), wherever that is."""
    given = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    except RuntimeError:
        raise Refused("this user has no home folder") from None
    return base / "gpu-node" / NAME


def existing(file: Path) -> bool:
    """Whether the file exists; Refused where it, or its folder, is not this user's alone."""
    try:
        real = Path(os.path.realpath(file.parent))
        _check((*file.parent.parents, *real.parents), file.parent)
        return _check((), file)
    except (OSError, ValueError) as error:
        raise Refused(_why(error)) from None


def made(file: Path) -> None:
    """Make the file and its folder where they do not exist, for this user alone; Refused as above.

    SQLite gives its journal the mode of the file.
    """
    folder = file.parent
    try:
        # Path.mkdir gives the folders above the mode of the umask.
        for each in reversed(folder.parents):
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
        if not folder.is_symlink():
            folder.mkdir(mode=0o700, exist_ok=True)
        if not existing(file):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        for each, mode in ((folder, 0o700), (file, 0o600)):
            if stat.S_IMODE(each.stat().st_mode) != mode:
                each.chmod(mode)
    except FileExistsError:  # another run has made it in between
        if not existing(file):
            raise Refused("another process removes it") from None
    except (OSError, ValueError) as error:
        raise Refused(_why(error)) from None


def _why(error: OSError | ValueError) -> str:
    return reason(error) if isinstance(error, OSError) else str(error)


def _check(parents: Iterable[Path], place: Path) -> bool:
    """Whether a place exists; Refused where others may replace it, or it is of another kind."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return False
    for parent in parents:
        above = parent.stat()
        if above.st_uid not in (0, os.geteuid()):
            raise Refused(f"{parent} belongs to another user, uid {above.st_uid}")
        if not above.st_mode & stat.S_ISVTX and (who := writers.others_in(parent, above)):
            raise Refused(f"{who} may change {parent}")
    if found.st_uid != os.geteuid():
        raise Refused(f"{place} belongs to another user, uid {found.st_uid}")
    is_kind = stat.S_ISREG if place.name in (NAME, KEY_NAME) else stat.S_ISDIR
    if stat.S_ISLNK(found.st_mode):
        raise Refused(f"{place} is a symbolic link")
    if not is_kind(found.st_mode):
        raise Refused(f"{place} is neither a plain file nor a folder of this name")
    return True


def anonymous_key() -> bytes:
    """Return the key that turns names into words, and make it where there is none.

    Raises Refused where it cannot be used.
    """
    try:
        file = path().with_name(KEY_NAME)
        made(file)
        with file.open("r+b") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)  # another run may make it
            key = opened.read(_KEY_BYTES + 1)
            if not key:
                key = secrets.token_bytes(_KEY_BYTES)
                opened.write(key)
    except OSError as error:
        raise Refused(reason(error)) from None
    if len(key) != _KEY_BYTES:
        raise Refused(f"{file} has not {_KEY_BYTES} bytes; remove it for a new key")
    return key
