"""Replacing a file on a node: backed up once a run, written beside, checked, renamed into place."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone

from pyinfra.api import StringCommand

from deploy.scripts import script
from facts.files import FileContent

# One folder a run: what it holds is what a user had before the run.
BACKUPS = f"/var/backups/gpu-node/{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"


def replace(
    path: str, old: FileContent, new: str, check: str = "", confirm_seconds: int = 0
) -> StringCommand:
    """Return the command that replaces `path`, whose content is `old`, by `new` (Latin-1).

    `check` is sh that gets the new and the old file as $1 and $2 and refuses by failing. With
    `confirm_seconds` the node undoes the change by itself unless `confirm` comes in time. The
    content goes by stdin: an argument would show it, and passwords in it, to everybody.
    """
    return script(
        "replace",
        stdin=_printf_format(new),
        file=path,
        before=_sum(old["text"]) if old["exists"] else "absent",
        after=_sum(new),
        backups=BACKUPS,
        check=check,
        confirm=str(confirm_seconds or ""),
    )


def confirm(path: str) -> StringCommand:
    """Return the command that keeps a replacement for good."""
    return script("confirm", file=path, backups=BACKUPS)


def restore(path: str, existed: bool) -> StringCommand:
    """Return the command that puts back what `path` was before this run."""
    return script("restore", file=path, backups=BACKUPS, existed="yes" if existed else "no")


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("latin-1")).hexdigest()


def _printf_format(text: str) -> str:
    """Return one line that printf(1) turns into `text`, whatever its bytes are."""
    plain = set(range(0x20, 0x7F)) - set(b"%\\-")
    coded = (chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode("latin-1"))
    return "".join(coded)
