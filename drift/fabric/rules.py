"""Fabric rules: the NVSwitches have their manager, and every NVLink works."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_node.drift.engine.rule import Fault, on_node, rule
from gpu_node.drift.host.machine import is_container
from gpu_node.facts.fabric import Switches
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

# Modules on a board with NVLink, whose links are all in use. The links of a PCIe card need bridges,
# which a server may lack on purpose.
_ON_A_BOARD = re.compile(r"SXM|HBM3|\b(H20|H200|H800|B200)(?! PCIe| NVL)\b")


@rule(
    "fabric.manager-down",
    "error",
    whole=True,
    always=True,
    stops="every",
    why="GPUs behind NVSwitches need it: without it CUDA fails with error 802 ('system not yet "
    "initialized'), while nvidia-smi looks well",
    manual="install nvidia-fabricmanager of exactly the driver's version, and start it: systemctl "
    "--no-reload enable --now nvidia-fabricmanager",
    alone="Leave the node out of the job.",
)
def manager_down(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The node has NVSwitches, and the fabric manager does not run."""
    switches = state.fabric.switches
    if switches is None or not switches.found or switches.running or is_container(state):
        return  # the manager of a container's host is not among its processes
    yield Fault(
        subject="fabric manager",
        found=shown(switches),
        wanted="it runs",
    )


def shown(switches: Switches) -> str:
    """Return the NVSwitches and the state of their manager as text."""
    ids = ", ".join(dict.fromkeys(each.id.removeprefix("0x") for each in switches.found))
    state = "does not run" if switches.installed else "is not installed"
    state = "runs" if switches.running else state
    return f"{len(switches.found)} (10de:{ids}), fabric manager {state}"


@rule(
    "fabric.nvlink-down",
    "error",
    because_of=(on_node(manager_down),),
    whole=True,
    always=True,
    who="administrator",
    why="NCCL takes a slower path between these GPUs: 'P2P is disabled between NVLINK connected "
    "GPUs'",
    manual="look at nvidia-smi nvlink -s and topo -m, and at dmesg (Xid 74); reset the GPU or "
    "reboot",
)
def nvlink_down(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """An NVLink of a GPU that has all its links on its board does not work."""
    links = state.fabric.nvlinks
    for each in links.gpus if links else ():
        if each.active < each.links and _ON_A_BOARD.search(each.gpu):
            yield Fault(
                subject=each.gpu,
                found=f"{each.active} of {each.links} links work",
                wanted="all of them",
            )
