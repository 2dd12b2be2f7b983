"""The two files of an inventory: the one that pyinfra loads and the cluster file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_node.facts.ask.pyinfra_file import (
    CLUSTER_FILES,
    CLUSTER_SUFFIX,
    NO_INVENTORY,
)
from gpu_node.inventories.cluster import Cluster
from gpu_node.inventories.errors import InventoryError, reason, shown, worded
from gpu_node.inventories.regular_file import content, why_none
from gpu_node.inventories.schema import load
from gpu_node.inventories.yaml.foreign import wrong_suffix
from gpu_node.onboarding.errors import FileError


@dataclass(frozen=True)
class Site:
    """`file` is the cluster file, `inventory` what a user typed: that, or the .py beside it."""

    inventory: Path
    file: Path

    def cluster(self) -> Cluster:
        """Return the current content of the cluster file; it may have no host yet.

        Raises FileError with all that is wrong with the file.
        """
        try:
            return load(self.file, may_be_new=True)
        except InventoryError as error:
            raise FileError(str(error)) from None

    def text(self) -> str:
        """Return the cluster file byte for byte."""
        try:
            return content(self.file).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            words = reason(error) if isinstance(error, OSError) else str(error)
            raise FileError(f"{self.file}: {worded(words, 'cannot be read')}") from None


def known_hosts(data: Mapping[str, Any]) -> Path:
    """Return the known_hosts file that the inventory names for a host, or the user's own."""
    return Path(str(data.get("ssh_known_hosts_file") or "~/.ssh/known_hosts")).expanduser()


def site_of(path: str) -> Site:
    """Return the inventory that either of its two files names.

    Raises FileError.
    """
    if why := why_none(path, NO_INVENTORY):
        raise FileError(f"--inventory: {worded(shown(path), why, CLUSTER_FILES)}")
    if error := wrong_suffix(path):
        raise FileError(error)
    file = Path(path).with_suffix(CLUSTER_SUFFIX)
    if not file.is_file():
        why = "this command changes that file"
        raise FileError(f"{path}: {worded(f'no cluster file {file} beside it', why, 'one')}")
    return Site(Path(path), file)
