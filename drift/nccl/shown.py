"""What the report shows of torch and NCCL, and compares between nodes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.nccl import rules, rules_system
from gpu_node.drift.nccl.compared import folders, has, is_as_a_whole
from gpu_node.drift.nccl.libnccl import loaded, own
from gpu_node.drift.nccl.rules_between import differs
from gpu_node.drift.nccl.rules_environments import environment_missing, python_old
from gpu_node.facts.nccl.state import Environment, plain
from gpu_node.facts.node import NodeState


def _environments(node: NodeState) -> list[Environment | None]:
    return list(node.nccl.environments.values())


def torch(node: NodeState) -> str | None:
    environments = _environments(node)
    if None in environments:
        return None
    versions = [each.torch.version if each and each.torch else "none" for each in environments]
    return ", ".join(dict.fromkeys(versions))


def nccl_loaded(node: NodeState) -> str | None:
    """The version that torch loads, in the order of the environments."""
    environments = _environments(node)
    if None in environments:
        return None
    versions = [loaded(each) for each in environments if each and each.torch]
    return ", ".join(dict.fromkeys(versions)) or "none"


def loaded_by(node: NodeState) -> str | None:
    environments = _environments(node)
    if None in environments:
        return None
    return (
        ", ".join(
            f"{each.loads.reason}: {plain(each.loads.path).removesuffix('/libnccl.so.2')}"
            for each in environments
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


def _has_libnccl(node: NodeState) -> bool:
    """Whether the system's libnccl matters: a node without it, and without torch, needs none."""
    named = node.nccl.environments.keys() - node.nccl.discovered.keys()
    return bool(named) or node.nccl.packages is None or bool(own(node.nccl))


FACTS = (
    Fact(
        "nccl.torch",
        "must-equal",
        (rules.torch_differs,),
        torch,
        differs,
        applies=_has_environments,
        explained_by=(environment_missing, python_old, rules.environment_unclear),
        compares=is_as_a_whole,
    ),
    Fact(
        "nccl.loaded",
        "must-equal",
        (rules.loaded_mismatch, rules.wheel_damaged, rules.duplicate_wheels),
        nccl_loaded,
        differs,
        applies=_has_environments,
        explained_by=(
            rules.torch_differs,
            environment_missing,
            python_old,
            rules.environment_unclear,
        ),
        follows="nccl.torch",
        compares=is_as_a_whole,
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
        applies=_has_libnccl,
        explained_by=(rules.torch_differs, rules.environment_unclear),
        follows="nccl.torch",
    ),
)


def of_nodes(nodes: Iterable[NodeState]) -> tuple[Fact, ...]:
    """Return facts for each environment that is compared by its folder, see `compared`."""
    return tuple(fact for prefix in folders([*nodes]) for fact in _of_folder(prefix))


def _of_folder(prefix: str) -> tuple[Fact, ...]:
    name = f"nccl.torch:{prefix}"
    marks = tuple(
        f"{each.id}:{prefix}"
        for each in (rules.loaded_mismatch, rules.wheel_damaged, rules.duplicate_wheels)
    )
    applies = partial(has, prefix)
    return (
        Fact(name, "must-equal", (), partial(_torch_of, prefix), differs, applies=applies),
        Fact(
            f"nccl.loaded:{prefix}",
            "must-equal",
            marks,
            partial(_loaded_of, prefix),
            differs,
            applies=applies,
            follows=name,
        ),
    )


def _torch_of(prefix: str, node: NodeState) -> str | None:
    environment = node.nccl.environments[prefix]
    return (
        None if environment is None else environment.torch.version if environment.torch else "none"
    )


def _loaded_of(prefix: str, node: NodeState) -> str | None:
    environment = node.nccl.environments[prefix]
    return None if environment is None else loaded(environment) if environment.torch else "none"
