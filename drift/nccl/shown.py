"""What the report shows of torch and NCCL, and compares between nodes."""

from __future__ import annotations

from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.nccl import rules, rules_system
from gpu_node.drift.nccl.libnccl import loaded, own
from gpu_node.drift.nccl.rules_between import differs
from gpu_node.facts.nccl.state import Environment, plain
from gpu_node.facts.node import NodeState


def _environments(node: NodeState) -> list[Environment | None]:
    return list(node.nccl.environments.values())


def torch(node: NodeState) -> str | None:
    found = _environments(node)
    if None in found:
        return None
    versions = [each.torch.version if each and each.torch else "none" for each in found]
    return ", ".join(dict.fromkeys(versions))


def nccl_loaded(node: NodeState) -> str | None:
    """The version that torch loads, in the order of the environments."""
    found = _environments(node)
    if None in found:
        return None
    versions = [loaded(each) for each in found if each and each.torch]
    return ", ".join(dict.fromkeys(versions)) or "none"


def loaded_by(node: NodeState) -> str | None:
    found = _environments(node)
    if None in found:
        return None
    return (
        ", ".join(
            f"{each.loads.reason}: {plain(each.loads.path).removesuffix('/libnccl.so.2')}"
            for each in found
            if each and each.loads and each.loads.path
        )
        or "none"
    )


def package(node: NodeState) -> str | None:
    if node.nccl.packages is None:
        return None
    versions = [each.version for each in own(node.nccl)]
    return ", ".join(dict.fromkeys(versions)) or "none"


def _has_environments(node: NodeState) -> bool:
    return bool(node.nccl.environments)


FACTS = (
    Fact(
        "nccl.torch",
        "must-equal",
        (rules.torch_differs,),
        torch,
        differs,
        applies=_has_environments,
    ),
    Fact(
        "nccl.loaded",
        "must-equal",
        (rules.loaded_mismatch, rules.wheel_damaged, rules.duplicate_wheels),
        nccl_loaded,
        differs,
        applies=_has_environments,
        explained_by=(rules.torch_differs,),
        follows="nccl.torch",
    ),
    Fact("nccl.loaded_by", "per-host", (rules.shadowed,), loaded_by, applies=_has_environments),
    Fact(
        "nccl.package",
        "must-equal",
        (
            rules_system.package_mismatch,
            rules_system.duplicate_packages,
            rules_system.package_missing,
            rules_system.package_damaged,
        ),
        package,
        differs,
        applies=_has_environments,
        explained_by=(rules.torch_differs,),
        follows="nccl.torch",
    ),
)
