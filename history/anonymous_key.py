"""The key that turns names into words: beside the kept reports, for this machine's user alone."""

from __future__ import annotations

import fcntl
import secrets

from gpu_node.history import folder
from gpu_node.inventories.errors import reason

_BYTES = 32


def anonymous_key() -> bytes:
    """Return the key, and make it where there is none; folder.Refused where it cannot be used."""
    try:
        file = folder.path().with_name(folder.KEY_NAME)
        folder.made(file)
        with file.open("r+b") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)  # another run may make it
            key = opened.read(_BYTES + 1)
            if not key:
                key = secrets.token_bytes(_BYTES)
                opened.write(key)
    except OSError as error:
        raise folder.Refused(reason(error)) from None
    if len(key) != _BYTES:
        raise folder.Refused(f"{file} has not {_BYTES} bytes; remove it for a new key")
    return key
