"""Files of this machine are replaced as a whole: there is the old one or the new, never half."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile


def replace(file: Path, data: bytes) -> None:
    """Put `data` in place of what a file holds; a link stays, and mode and owner are kept.

    An OSError says why not: nothing has changed then, and nothing is left beside the file.
    """
    real = file.resolve()
    with NamedTemporaryFile(dir=real.parent, prefix=f".{real.name}.", delete=False) as half:
        try:
            half.write(data)
            half.flush()
            os.fsync(half.fileno())
            if real.exists():
                shutil.copymode(real, half.name)
                with suppress(PermissionError):
                    os.chown(half.name, real.stat().st_uid, real.stat().st_gid)
            os.replace(half.name, real)
        except BaseException:
            Path(half.name).unlink(missing_ok=True)
            raise
