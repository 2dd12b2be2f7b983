"""The two files of an inventory: the one that pyinfra loads and the cluster file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_node.facts.ask.pyinfra_file import CLUSTER_SUFFIX, SUFFIX, pyinfra_file
from gpu_node.inventories.cluster import Cluster
from gpu_node.inventories.schema import InventoryError, load
from gpu_node.onboarding.errors import Stopped


@dataclass(frozen=True)
class Site:
    """`file` is the cluster file, `inventory` the .py file beside it, or `file` without one."""

    inventory: Path
    file: Path

    def cluster(self) -> Cluster:
        """Return the current content of the cluster file; it may have no host yet.

        Raises Stopped with all that is wrong with the file.
        """
        try:
            return load(self.file, may_be_new=True)
        except InventoryError as error:
            raise Stopped(str(error)) from None

    def text(self) -> str:
        """Return the cluster file byte for byte."""
        try:
            return self.file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Stopped(f"cannot read {self.file}: {error}") from None


def known_hosts(data: Mapping[str, Any]) -> Path:
    """Return the known_hosts file that the inventory names for a host, or the user's own."""
    return Path(str(data.get("ssh_known_hosts_file") or "~/.ssh/known_hosts")).expanduser()


def site_of(path: str) -> Site:
    """Return the inventory that either of its two files names; the .py file may be missing."""
    given = Path(path)
    if given.suffix not in (SUFFIX, CLUSTER_SUFFIX):
        raise Stopped(f"{path}: give the cluster file of an inventory, such as inventories/lab.yml")
    file = given.with_suffix(CLUSTER_SUFFIX)
    for each in (file, given):
        if not each.is_file():
            raise Stopped(f"no such inventory file: {each}")
    return Site(Path(pyinfra_file(str(file))), file)
