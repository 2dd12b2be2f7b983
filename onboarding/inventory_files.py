"""A site: the two files of an inventory, the one that pyinfra takes and the one that it reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventories.cluster import Cluster
from inventories.schema import InventoryError, load
from onboarding.stopped import Stopped


@dataclass(frozen=True)
class Site:
    """`inventory` is a .py for pyinfra, `file` the cluster file beside it."""

    inventory: Path
    file: Path

    def cluster(self) -> Cluster:
        """Return what the cluster file says by now; Stopped tells all that is wrong with it.

        It may be a new one, to which the first host is to come.
        """
        try:
            return load(self.file, may_be_new=True)
        except InventoryError as error:
            raise Stopped(str(error)) from None

    def digest(self) -> str:
        """Return a sum of the cluster file."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def text(self) -> str:
        """Return the cluster file byte for byte."""
        try:
            return self.file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Stopped(f"cannot read {self.file}: {error}") from None


def known_hosts(data: Mapping[str, Any]) -> Path:
    """Return the file in which this machine pins a host's key, by what the inventory says of it."""
    return Path(str(data.get("ssh_known_hosts_file") or "~/.ssh/known_hosts")).expanduser()


def site_of(path: str) -> Site:
    """Return the site that either of its two files stands for."""
    given = Path(path)
    if given.suffix not in (".py", ".yml"):
        raise Stopped(f"{path}: give the cluster file of an inventory, such as inventories/lab.yml")
    for each in (given.with_suffix(".yml"), given.with_suffix(".py")):
        if not each.is_file():
            hint = "" if each.suffix == ".yml" else ": copy inventories/lab.py beside the other"
            raise Stopped(f"no such inventory file: {each}{hint}")
    return Site(given.with_suffix(".py"), given.with_suffix(".yml"))
