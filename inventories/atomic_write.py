"""Files of this machine are replaced as a whole: there is the old one or the new, never half."""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile


def replace(file: Path, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Put `data`, or its parts, in place of what a file holds; a link, mode and owner are kept.

    A new file gets `mode`, less the umask. An OSError says why not: nothing has changed then, and
    nothing is left beside the file.
    """
    real = real_path(file)
    with NamedTemporaryFile(dir=real.parent, prefix=f".{real.name}.", delete=False) as half:
        try:
            half.writelines([data] if isinstance(data, bytes) else data)
            half.flush()
            if real.exists():
                shutil.copymode(real, half.name)
                with suppress(PermissionError):
                    os.chown(half.name, real.stat().st_uid, real.stat().st_gid)
            else:
                os.chmod(half.name, mode & ~_umask())
            place(Path(half.name), real)
        except BaseException:
            Path(half.name).unlink(missing_ok=True)
            raise


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
