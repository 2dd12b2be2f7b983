"""The journal: how far a server's onboarding came, so that the same command goes on from there.

It lies beside the caller's other state and not beside the inventory, which stays what its owner
wrote. No secret is ever in it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from inventories.replacing import replace
from onboarding.site import Site


class Journal(BaseModel):
    """What a server was asked for by, and the stages that are behind it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    address: str
    user: str
    port: int
    group: str | None = None
    # By what known_hosts had no key of it until this onboarding pinned one.
    pinned: tuple[str, ...] = ()
    # The stages that were done, with this cluster file (a sum of it).
    done: tuple[str, ...] = ()
    file: str = ""

    def with_stage(self, stage: str, file: str) -> Journal:
        """Return it with one more stage done; what was done by another cluster file is not."""
        before = self.done if self.file == file else ()
        return self.model_copy(update={"done": (*before, stage), "file": file})

    def has_done(self, stage: str, file: str) -> bool:
        """Whether a stage was done by this cluster file."""
        return stage in self.done and self.file == file

    def anew(self) -> Journal:
        """Return it with no stage done."""
        return self.model_copy(update={"done": (), "file": ""})


def read(site: Site, name: str) -> Journal | None:
    """Return a server's journal; None where it has none, or one that nobody understands."""
    try:
        return Journal.model_validate_json(_file(site, name).read_text(encoding="utf-8"))
    except (OSError, ValueError, ValidationError):
        return None


def write(site: Site, journal: Journal) -> None:
    """Keep a server's journal, as a whole or not at all."""
    file = _file(site, journal.name)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace(file, f"{journal.model_dump_json()}\n".encode())


def forget(site: Site, name: str) -> None:
    """Take a server's journal away: it is a member, or none any more."""
    _file(site, name).unlink(missing_ok=True)


def unfinished(site: Site) -> Iterator[Journal]:
    """Yield the journals of a site."""
    for file in sorted(_folder(site).glob("*.json")):
        journal = read(site, file.stem)
        if journal is not None:
            yield journal


def _folder(site: Site) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    which = hashlib.sha256(str(site.file.resolve()).encode()).hexdigest()[:12]
    return Path(home) / "gpu-node" / "onboarding" / f"{site.file.stem}-{which}"


def _file(site: Site, name: str) -> Path:
    # A name that the inventory would refuse is refused later; here it must be no path.
    return _folder(site) / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.json"
