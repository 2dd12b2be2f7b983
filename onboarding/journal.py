"""The journal: what an unfinished onboarding or removal cannot read from the nodes or its files.

It is in the caller's state folder, not beside the inventory, and never contains a secret.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from gpu_node.inventories.atomic_write import replace
from gpu_node.onboarding.inventory_files import Site


class Journal(BaseModel):
    """How an unfinished server is reached, and what its onboarding pinned.

    While a server of the inventory has one, it is not a member yet. Stages are not in it: they are
    idempotent, and run again.
    """

    # One that an older version wrote has more.
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    address: str
    user: str
    port: int
    group: str | None = None
    # The names in known_hosts that had no key of the server before this onboarding pinned one. A
    # run that was killed may have pinned none of them.
    pinned: tuple[str, ...] = ()
    # The server is out of the cluster file; the other nodes may still know it.
    removed: bool = False


def read(site: Site, name: str) -> Journal | None:
    """Return a server's journal; None where it has none, or a damaged one."""
    try:
        return Journal.model_validate_json(_file(site, name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def begun(site: Site, name: str) -> Journal | None:
    """Return the journal of a server whose onboarding is unfinished, else None."""
    found = read(site, name)
    return None if found is None or found.removed else found


def write(site: Site, journal: Journal) -> None:
    """Replace a server's journal, completely or not at all."""
    file = _file(site, journal.name)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace(file, f"{journal.model_dump_json()}\n".encode())


def forget(site: Site, name: str) -> None:
    """Delete a server's journal: its onboarding or removal is finished."""
    _file(site, name).unlink(missing_ok=True)


def unfinished(site: Site) -> Iterator[Journal]:
    """Yield the journals of an inventory."""
    for file in sorted(_folder(site).glob("*.json")):
        journal = read(site, file.stem)
        if journal is not None:
            yield journal


def _folder(site: Site) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    which = hashlib.sha256(str(site.file.resolve()).encode()).hexdigest()[:12]
    return Path(home) / "gpu-node" / "onboarding" / f"{site.file.stem}-{which}"


def _file(site: Site, name: str) -> Path:
    # The inventory refuses a bad name later; here it must not become a path.
    return _folder(site) / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.json"
