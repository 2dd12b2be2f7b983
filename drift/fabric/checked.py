"""What a pre-flight shows of what connects the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.preflight import Check, Checked
from gpu_node.drift.fabric import rules
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


def _links(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Check]:
    switches, links = state.fabric.switches, state.fabric.nvlinks
    shown = "" if switches else None
    if switches and switches.found:
        shown = rules.shown(switches)
    yield Check("NVSwitch", shown, (rules.manager_down,), "fabric.switches", mended=True)
    shown = "" if links else None
    if links and (total := sum(gpu.links for gpu in links.gpus)):
        shown = f"{sum(gpu.active for gpu in links.gpus)} of {total} links work"
    yield Check("NVLink", shown, (rules.nvlink_down,), "fabric.nvlink", mended=True)


CHECKED = Checked({"links": _links}, of_server=("fabric.",))
