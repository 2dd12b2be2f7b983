"""Toolchain rules between nodes: the same CUDA toolkit, gcc and Python."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.neighbours import Among
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.unlike import Text, faults
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

_CUDA = {
    "toolchain.cuda": Text(
        "DeepSpeed and other CUDA extensions are compiled by each node's own nvcc: an operator "
        "that builds on one node fails, or is missing, on another",
        "install the toolkit of one version on all nodes, and set CUDA_HOME to it",
    )
}
_GCC = {
    "toolchain.gcc": Text(
        "each node compiles DeepSpeed's operators with its own gcc: nvcc refuses a gcc that is too "
        "new for it, and torch one that is too old, on some nodes only",
        "install one gcc on all nodes (CentOS 7: devtoolset; conda install gxx_linux-64), or build "
        "the operators once and copy the environment",
    )
}
_JOB = (
    "torch.distributed runs the same code on each node: wheels of the environment, pickled objects "
    "and compiled operators of one Python do not load in another"
)
_PYTHON = {
    "toolchain.python": Text(_JOB, "make the environments of all nodes with one Python"),
    "toolchain.python3": Text(
        "a job that is started with the python3 of PATH gets another Python on each node",
        "start jobs in an environment of all nodes, and name it: nccl: {environments: [...]}",
        "warning",
    ),
}


@rule(
    "toolchain.cuda-differs",
    "warning",
    compares=True,
    several=True,
    always=True,
    why="CUDA extensions such as DeepSpeed's operators are compiled by each node's own nvcc.",
    manual="Install one version of the CUDA toolkit on all nodes, and set CUDA_HOME to it.",
    alone="Install the toolkit in the environment: conda install cuda-nvcc=VERSION.",
)
def cuda_differs(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """The CUDA toolkit has another version than on the other nodes."""
    yield from faults(among, _CUDA)


@rule(
    "toolchain.gcc-differs",
    "warning",
    compares=True,
    several=True,
    always=True,
    why="DeepSpeed's operators are compiled by each node's own gcc, and may fail on some nodes.",
    manual="Install one gcc on all nodes, or build the operators once.",
    alone="Install the compiler in the environment: conda install gxx_linux-64.",
)
def gcc_differs(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """The gcc in PATH has another version than on the other nodes."""
    yield from faults(among, _GCC)


@rule(
    "toolchain.python-differs",
    ("error", "warning"),
    compares=True,
    several=True,
    always=True,
    why="Wheels, pickled objects and compiled operators of one Python do not load in another.",
    manual="Make the environments of all nodes with one Python version.",
)
def python_differs(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """The Python that runs jobs has another version than on the other nodes."""
    # toolchain.python:FOLDER is about one environment.
    texts = {each.fact: _PYTHON.get(each.fact.partition(":")[0]) for each in among.unlike}
    yield from faults(among, {fact: text for fact, text in texts.items() if text})
