"""Files of this machine are replaced as a whole: there is the old one or the new, never half."""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile

from gpu_node.inventories.writers import is_own


def replace(file: Path, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Put `data`, or its parts, in place of what a file holds; a link, mode and owner are kept.

    A new file gets `mode`, less the umask, and so does one that another user has put into a folder
    of all users meanwhile. An OSError says why not: nothing has changed then, and nothing is left
    beside the file.
    """
    real = real_path(file)
    before = _kept(real)
    with NamedTemporaryFile(dir=real.parent, prefix=f".{real.name}.", delete=False) as half:
        try:
            half.writelines([data] if isinstance(data, bytes) else data)
            half.flush()
            os.chmod(half.name, stat.S_IMODE(before.st_mode) if before else mode & ~_umask())
            if before:
                with suppress(PermissionError):
                    os.chown(half.name, before.st_uid, before.st_gid)
            place(Path(half.name), real)
        except BaseException:
            Path(half.name).unlink(missing_ok=True)
            raise


def check_folder(folder: Path) -> None:
    """Raise OSError where no file can be made in a folder, or in the one that it will be made in.

    It is tried: root may write where a file system, as /proc, takes no file.
    """
    there = next(each for each in (folder, *folder.absolute().parents) if os.path.lexists(each))
    with TemporaryFile(dir=there):
        pass


def _kept(real: Path) -> os.stat_result | None:
    """Return the mode and the owner that a file keeps."""
    try:
        found = real.lstat()
    except FileNotFoundError:
        return None
    is_others = not is_own(found) and real.parent.stat().st_mode & stat.S_IWOTH
    return None if is_others else found


def real_path(file: Path) -> Path:
    """Return where a file is, or will be, behind links; OSError for links that lead in a circle."""
    with suppress(FileNotFoundError):
        os.stat(file)
    return Path(os.path.realpath(file))


def place(new: Path, file: Path) -> None:
    """Rename a written file into another one's place: after a crash there is one of them, whole."""
    with new.open("rb") as written:
        os.fsync(written.fileno())
    new.replace(file)
    with suppress(OSError):  # not every file system can
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value
