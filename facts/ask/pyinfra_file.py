"""What pyinfra loads for INVENTORY: a .py file, or a cluster file (.yml) by our connector."""

from pathlib import Path

SUFFIX, CLUSTER_SUFFIX = ".py", ".yml"
# The connector of a cluster file, and the host data in which it finds INVENTORY as typed.
CONNECTOR, INVENTORY_DATA = "gpu-node", "gpu_node_inventory"
# What a message allows for INVENTORY, and where only a cluster file has what is needed.
INVENTORIES = "pyinfra's inventory (.py), or a cluster file (.yml)"
CLUSTER_FILES = "a cluster file (.yml), or the .py file beside it"
NO_INVENTORY = "no such inventory file"


def pyinfra_file(inventory: str) -> str:
    """Return the .py file beside a cluster file; `inventory` if there is none or for others."""
    if inventory.endswith(CLUSTER_SUFFIX):
        file = inventory.removesuffix(CLUSTER_SUFFIX) + SUFFIX
        return file if Path(file).is_file() else inventory
    return inventory


def loadable(inventory: str) -> tuple[str, list[str]]:
    """Return what pyinfra can load, and the folders of group data that it does not find itself.

    A lone cluster file is loaded by our connector; its folder may have group data. Raises
    PyinfraError for a path that pyinfra would take for two.
    """
    file = pyinfra_file(inventory)
    if not file.endswith(CLUSTER_SUFFIX):
        return file, []
    if "," in file:
        from pyinfra.api.exceptions import PyinfraError  # not before a command line is understood

        raise PyinfraError(
            f"{file}: found a comma in the path (pyinfra splits INVENTORY at it); allowed: a path "
            f"without one; next: rename it, or write {Path(file).with_suffix(SUFFIX).name} beside "
            "it, as gpu-node init does"
        )
    folder = Path(file).absolute().parent / "group_data"
    is_found = folder == Path.cwd() / "group_data"
    return f"@{CONNECTOR}/{file}", [] if is_found or not folder.is_dir() else [str(folder)]
