"""The file that pyinfra loads for INVENTORY: a .py file, or a cluster file (.yml)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

SUFFIX, CLUSTER_SUFFIX = ".py", ".yml"
IMPORT = "from gpu_node.inventories.groups import groups_of"
_STAND_IN = f"""\
{IMPORT}

globals().update(groups_of({{file!r}}))
"""


def wrong_suffix(path: str) -> str | None:
    """Return why a file is not an inventory by its suffix, with the next step; None if it may be.

    pyinfra would run any file as Python.
    """
    found = Path(path).suffix
    if found in (SUFFIX, CLUSTER_SUFFIX):
        return None
    allowed = f"{CLUSTER_SUFFIX} (a cluster file) or {SUFFIX} (pyinfra's inventory)"
    what = f"the suffix {found!r}" if found else "no suffix"
    meant = {SUFFIX: SUFFIX, CLUSTER_SUFFIX: CLUSTER_SUFFIX, ".yaml": CLUSTER_SUFFIX}
    right = meant.get(found.lower())
    then = f"; next: rename it to {Path(path).with_suffix(right)}" if right else ""
    return f"{path}: found {what}; allowed: {allowed}{then}"


def pyinfra_file(inventory: str) -> str:
    """Return the .py file beside a cluster file; `inventory` if there is none or for others."""
    if inventory.endswith(CLUSTER_SUFFIX):
        beside = inventory.removesuffix(CLUSTER_SUFFIX) + SUFFIX
        return beside if Path(beside).is_file() else inventory
    return inventory


@contextmanager
def loadable(inventory: str) -> Iterator[str]:
    """Yield what pyinfra can load: a temporary .py file for a lone cluster file, else `inventory`.

    pyinfra finds the group data beside the cluster file as well. Raises OSError where no temporary
    file can be written.
    """
    inventory = pyinfra_file(inventory)
    if not inventory.endswith(CLUSTER_SUFFIX):
        yield inventory
        return
    cluster_file = Path(inventory).absolute()
    with TemporaryDirectory(prefix="gpu-node-") as folder:
        stand_in = Path(folder, cluster_file.name).with_suffix(SUFFIX)
        stand_in.write_text(_STAND_IN.format(file=str(cluster_file)), encoding="utf-8")
        Path(folder, "group_data").symlink_to(cluster_file.parent / "group_data")
        yield str(stand_in)


def deploy_command(inventory: str, options: Sequence[str] = ()) -> str:
    """Return the shell command that repairs the nodes of an inventory."""
    return shlex.join(["gpu-node", "deploy", inventory, *options])
