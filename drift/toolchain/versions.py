"""What the report shows of the CUDA toolkit, gcc and Python, and compares between nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.nccl.compared import folders, has, is_as_a_whole
from gpu_node.drift.toolchain.packages import are_read
from gpu_node.drift.toolchain.rules_versions import cuda_differs, gcc_differs, python_differs
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeState
from gpu_node.facts.toolchain.versions import Program


def _of(kind: str, node: NodeState) -> str | None:
    """Return the version of a tool; None where it shows none, or nothing was read."""
    if node.toolchain.versions is None:
        return None
    program: Program | None = getattr(node.toolchain.versions, kind)
    return program.version if program is not None else "none"


def _why(kind: str, node: NodeState) -> str:
    """Return what a tool prints in place of its version; empty where it was not asked for it."""
    program: Program | None = getattr(node.toolchain.versions, kind, None)
    if program is None or program.version is not None:
        return ""
    return f"{program.path} shows no version: {program.output[:100] or 'no output'}"


def _has(kind: str, node: NodeState) -> bool:
    """Whether a node has a tool, or its tools could not be read; one without it builds nothing."""
    return node.toolchain.versions is None or getattr(node.toolchain.versions, kind) is not None


def _minor(version: str) -> str:
    """Return 3.10 of 3.10.13: wheels and pickles are of that."""
    return ".".join(version.split(".")[:2])


def _in_path(node: NodeState) -> str | None:
    version = _of("python3", node)
    return None if version is None else _minor(version)


def _is_in_path_alone(node: NodeState) -> bool:
    """Whether jobs would run in the Python of PATH: no environment with torch is known."""
    return not node.nccl.environments and _has("python3", node)


def _python(node: NodeState) -> str | None:
    environments = [
        environment for environment in node.nccl.environments.values() if environment is not None
    ]
    return ", ".join(dict.fromkeys(_minor(each.python) for each in environments))


FACTS = (
    Fact(
        "toolchain.cuda",
        "must-equal",
        (),
        partial(_of, "cuda"),
        cuda_differs,
        applies=partial(_has, "cuda"),
        why=partial(_why, "cuda"),
    ),
    Fact(
        "toolchain.gcc",
        "must-equal",
        (),
        partial(_of, "gcc"),
        gcc_differs,
        applies=partial(_has, "gcc"),
        why=partial(_why, "gcc"),
    ),
    Fact(
        "toolchain.python",
        "must-equal",
        (),
        _python,
        python_differs,
        applies=are_read,
        compares=is_as_a_whole,
    ),
    Fact(
        "toolchain.python3",
        "must-equal",
        (),
        _in_path,
        python_differs,
        applies=_is_in_path_alone,
        why=partial(_why, "python3"),
    ),
)


def of_folders(nodes: list[NodeState]) -> Iterator[Fact]:
    """Yield the Python of each environment that is compared by its folder."""
    for prefix in folders(nodes):
        yield Fact(
            f"toolchain.python:{prefix}",
            "must-equal",
            (),
            partial(_python_of, prefix),
            python_differs,
            applies=partial(has, prefix),
        )


def _python_of(prefix: str, node: NodeState) -> str | None:
    environment: Environment | None = node.nccl.environments[prefix]
    return None if environment is None else _minor(environment.python)
