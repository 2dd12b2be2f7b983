"""The answer of `gpu-node fit` as JSON: nodes, what fits all, why the rest does not."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpu_node.drift.driver.target import Branch
from gpu_node.drift.fit.node import Node
from gpu_node.drift.fit.solve import Fit
from gpu_node.drift.tables import source
from gpu_node.inventories.escape import visible_json


def render(found: Fit, inventory: str, tool: Mapping[str, str], generated: str) -> str:
    """Return the answer as indented JSON with a final newline; `generated` is ISO 8601, UTC."""
    whole = {
        "schema": 1,
        "tool": tool,
        "inventory": inventory,
        "generated": generated,
        "nodes": {node.name: _node(found, node) for node in found.nodes},
        "fits": {
            "driver": [_branch(each) for each in found.drivers],
            "cuda": found.cudas,
            "torch": [each._asdict() for each in found.wheels],
            "nccl": found.nccls,
        },
        "ruled_out": [each._asdict() for each in found.ruled_out],
        "set": found.chosen
        and {"driver": _branch(found.chosen.driver), "torch": found.chosen.wheel._asdict()},
        "changes": [each._asdict() for each in found.changes],
        "sources": {name: source(name) for name in sorted({e.table for e in found.ruled_out})},
    }
    return f"{visible_json(json.dumps(whole, indent=2, ensure_ascii=False))}\n"


def _node(found: Fit, node: Node) -> dict[str, Any]:
    own = asdict(node)
    del own["name"], own["models"]
    torches = {prefix: torch.version for prefix, torch in node.torches}
    return {"status": found.status(node), **own, "torches": torches, "module": node.module}


def _branch(branch: Branch) -> dict[str, Any]:
    return {"branch": branch.number, "maintained_until": branch.until or None}
