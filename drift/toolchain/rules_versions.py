"""Toolchain rules between nodes: the same cmake, CUDA toolkit, gcc and Python."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.unlike import Text, faults
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

_PYTHON = {
    "toolchain.python": Text(),
    "toolchain.python3": Text(
        "a job that is started with the python3 of PATH gets another Python on each node",
        "start jobs in an environment of all nodes, and name it: nccl: {environments: [...]}",
        "warning",
    ),
}


@rule(
    "toolchain.cmake-differs",
    "warning",
    compares=True,
    several=True,
    always=True,
    why="a CUDA extension that builds on one node may not build on another",
    manual="name the release in the inventory, and the deploy installs it: toolchain: {cmake: "
    "{version: ..., url: ..., sha256: ...}}",
    alone="Install one release in each environment that builds: pip install cmake==VERSION.",
)
def cmake_differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The first cmake in PATH has another version than on the other nodes."""
    yield from faults(nodes, {"toolchain.cmake": Text()})


@rule(
    "toolchain.cuda-differs",
    "warning",
    compares=True,
    several=True,
    always=True,
    why="DeepSpeed and other CUDA extensions are compiled by each node's own nvcc: an operator "
    "that builds on one node fails, or is missing, on another",
    manual="install the toolkit of one version on all nodes, and set CUDA_HOME to it",
    alone="Install the toolkit in the environment: conda install cuda-nvcc=VERSION.",
)
def cuda_differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The CUDA toolkit has another version than on the other nodes."""
    yield from faults(nodes, {"toolchain.cuda": Text()})


@rule(
    "toolchain.gcc-differs",
    "warning",
    compares=True,
    several=True,
    always=True,
    why="each node compiles DeepSpeed's operators with its own gcc: nvcc refuses a gcc that is too "
    "new for it, and torch one that is too old, on some nodes only",
    manual="install one gcc on all nodes (CentOS 7: devtoolset; conda install gxx_linux-64), or "
    "build the operators once and copy the environment",
    alone="Install the compiler in the environment: conda install gxx_linux-64.",
)
def gcc_differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The gcc in PATH has another version than on the other nodes."""
    yield from faults(nodes, {"toolchain.gcc": Text()})


@rule(
    "toolchain.python-differs",
    ("error", "warning"),
    compares=True,
    several=True,
    always=True,
    why="torch.distributed runs the same code on each node: wheels of the environment, pickled "
    "objects and compiled operators of one Python do not load in another",
    manual="make the environments of all nodes with one Python",
)
def python_differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The Python that runs jobs has another version than on the other nodes."""
    yield from faults(nodes, _PYTHON)
