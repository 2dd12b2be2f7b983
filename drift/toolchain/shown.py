"""What the report shows of the toolchain: cmake, the CUDA toolkit, gcc, Python, and the system."""

from collections.abc import Iterator, Sequence
from functools import partial

from gpu_node.drift.driver.boot import short
from gpu_node.drift.engine.fact import Fact, shows
from gpu_node.drift.nccl.compared import folders, in_folder, is_as_a_whole
from gpu_node.drift.toolchain.packages import are_read
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeState
from gpu_node.facts.toolchain.state import Cmake
from gpu_node.facts.toolchain.versions import Program, Versions


@shows("toolchain.cmake")
def cmake(found: tuple[Cmake, ...]) -> str:
    return (found[0].version or "broken") if found else "none"


@shows("toolchain.cmake_path")
def cmake_path(found: tuple[Cmake, ...]) -> str:
    return found[0].path if found else "none"


shows("toolchain.kernel")(short)


def _of(kind: str, versions: Versions) -> str | None:
    """Return the version of a tool; None where it shows none."""
    program: Program | None = getattr(versions, kind)
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


for _kind in ("cuda", "gcc"):
    shows(f"toolchain.{_kind}", applies=partial(_has, _kind), lacks=partial(_why, _kind))(
        partial(_of, _kind)
    )


def _is_in_path_alone(node: NodeState) -> bool:
    """Whether jobs would run in the Python of PATH: no environment with torch is known."""
    return not node.nccl.environments and _has("python3", node)


@shows("toolchain.python3", applies=_is_in_path_alone, lacks=partial(_why, "python3"))
def in_path(versions: Versions) -> str | None:
    version = _of("python3", versions)
    return None if version is None else _minor(version)


def _python(environment: Environment) -> str:
    return _minor(environment.python)


@shows("toolchain.python", applies=are_read, compares=is_as_a_whole)
def python(node: NodeState) -> str | None:
    environments = node.nccl.environments.values()
    return ", ".join(dict.fromkeys(_python(each) for each in environments if each is not None))


def of_nodes(nodes: Sequence[NodeState]) -> Iterator[Fact]:
    """Yield the Python of each environment that is compared by its folder."""
    for prefix in folders(nodes):
        yield in_folder("toolchain.python", prefix, _python)
