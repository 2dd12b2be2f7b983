"""Fixtures of the tests on the lab: the lab is up, and its nodes are as found or as converged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from gpu_node.facts.areas import AREAS
from gpu_node.lab import disks, life, nodes, roster
from tests.e2e.on_lab import INVENTORY, MANAGED, converge, on
from tests.lab_errors import end_the_lane

Overrides = dict[str, object]
# A node as the first converge has left it.
CONVERGED = "converged"
APT_NODE = "v100-02"
# Nodes whose state was kept in this session: an earlier session had earlier code.
_kept_here: set[str] = set()
# What the main job leaves is where others begin.
FIRST = "test_journey"


class WriteInventory(Protocol):
    """Writes an inventory and returns its path."""

    def __call__(self, overrides: dict[str, Overrides]) -> str:
        """Overrides are flat host data keys by node, as --data takes them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the main job first."""
    items.sort(key=lambda item: item.path.stem != FIRST)


@pytest.fixture(scope="session", autouse=True)
def the_lab() -> None:
    """Start the lab, unless it runs; if it does not start, the lane ends with one line."""
    with end_the_lane():
        life.up()


@pytest.fixture(scope="session")
def converged_once(the_lab: None) -> None:
    """Both rpm nodes were converged in this session, and their disks kept like that."""
    converge_unless_kept()


def converge_unless_kept(chosen: Sequence[str] = MANAGED, inventory: str = INVENTORY) -> bool:
    """Converge these nodes once a session; return whether this call did it."""
    if _kept_here.issuperset(chosen):
        return False
    nodes.reset(chosen)
    if APT_NODE in chosen:
        let_in(APT_NODE)
    done = converge(inventory)
    assert done.code == 0, done.err
    keep_converged(chosen)
    return True


def keep_converged(chosen: Sequence[str] = MANAGED) -> None:
    """Keep these disks as they are now: converged."""
    for node in chosen:
        disks.keep(node, CONVERGED)
    _kept_here.update(chosen)


def come_back() -> None:
    """Start this clone's lab again after another installation had it, with the kept disks."""
    life.up()
    nodes.put_back(sorted(_kept_here), CONVERGED)


def let_in(node: str) -> None:
    """Authorise the lab's key for root on the bare node."""
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    on(node, f"mkdir -p /root/.ssh && echo '{key}' >/root/.ssh/authorized_keys")


def _put(tree: dict[str, object], flat: str, value: object) -> None:
    """Set a flat host data key (limits_nofile) where the cluster file has it."""
    area, _, rest = flat.partition("_")
    if not rest or flat == "own_checks":
        tree[flat] = value
        return
    place = tree.setdefault(area, {})
    assert isinstance(place, dict)
    if rest.startswith(("cmake_", "repository_")):
        _put(place, rest, value)
    else:
        place[rest] = value


@pytest.fixture
def inventory(tmp_path: Path) -> WriteInventory:
    """Return a function that writes the lab's inventory with other values for a node."""
    return lambda overrides: write_inventory(tmp_path, overrides)


def write_inventory(into: Path, overrides: dict[str, Overrides]) -> str:
    """Write the lab's inventory with other values for a node into a folder; return its path."""
    folder = roster.REPOSITORY / "inventories"
    cluster = yaml.safe_load((folder / "lab.yml").read_text())
    ssh = cluster["defaults"]["ssh"]
    ssh.update(key=str(roster.CLIENT_KEY), known_hosts=str(roster.KNOWN_HOSTS))
    cluster["defaults"]["nccl"]["repository"]["key"] = str(roster.REPOSITORY_KEY)
    for node, settings in overrides.items():
        for key, value in settings.items():
            _put(cluster["hosts"][node], key, value)
    (into / "lab.yml").write_text(yaml.safe_dump(cluster))
    (into / "lab.py").write_text((folder / "lab.py").read_text())
    return str(into / "lab.py")


def apt_inventory(into: Path, overrides: dict[str, Overrides]) -> str:
    """Write an inventory of the apt node alone: its driver by packages, no Python environment."""
    path = write_inventory(into, {})
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["hosts"] = {APT_NODE: {"address": roster.NODES[APT_NODE].address, "group": "v100"}}
    del cluster["defaults"]["toolchain"]["packages"]
    nccl = cluster["defaults"]["nccl"]
    del nccl["environments"], nccl["copy_from"]
    nccl["version"] = "2.18.1+cuda12.1"
    for key, value in overrides.get(APT_NODE, {}).items():
        _put(cluster["hosts"][APT_NODE], key, value)
    file.write_text(yaml.safe_dump(cluster))
    return path


# What is judged of a Python environment that no inventory names.
OF_ENVIRONMENTS = ("nccl.duplicate-wheels", "nccl.wheel-damaged", "nccl.loaded-mismatch")


def others_off(cluster: dict[str, Any], *rules: str) -> dict[str, bool]:
    """Return the `checks` that turn off what the defaults do not name: it is broken as found."""
    unnamed = [area for area in AREAS if area not in {*cluster["defaults"], "ssh"}]
    return dict.fromkeys((*unnamed, *rules), False)


def nccl_alone(written: str, node: str, **settings: object) -> str:
    """Change an inventory to one node, of which its libnccl is managed and nothing else."""
    file = Path(written).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"] = {name: cluster["defaults"][name] for name in ("ssh", "supply")}
    checks = others_off(cluster, *OF_ENVIRONMENTS)
    del checks["nccl"]
    cluster["hosts"] = {
        node: {
            "address": roster.NODES[node].address,
            "group": "v100",
            "nccl": settings,
            "checks": checks,
        }
    }
    file.write_text(yaml.safe_dump(cluster))
    return written
