"""What the report compares of the packages of Python environments, each of which is a fact."""

from collections.abc import Sequence
from functools import partial

from gpu_node.drift.engine.fact import Fact, Row
from gpu_node.drift.engine.subject import Package
from gpu_node.drift.nccl.compared import folders, has, is_as_a_whole
from gpu_node.drift.toolchain.packages import (
    NOT_COMPARED,
    PACKAGE,
    Compared,
    are_read,
    compared,
    is_unmet,
    pins,
    version,
)
from gpu_node.facts.node import NodeState

_ROW = Row(same="everywhere", rule="toolchain.package-differs", severity="warning")


def of_nodes(nodes: Sequence[NodeState]) -> tuple[Fact, ...]:
    """Return a fact for each package of the environments that is compared between these nodes.

    What one node alone may have is behind what most have: where rows are few, it takes none of
    theirs.
    """
    several = compared(nodes, folders(nodes))
    common = [_package(each.prefix, name) for each in several for name in sorted(each.common)]
    rare = [_package(each.prefix, name) for each in several for name in sorted(each.rare)]
    more = [_left_out(each) for each in several if any(map(each.left_out, nodes))]
    return (*common, *rare, *more)


def _package(prefix: str, name: str) -> Fact:
    return package_fact_of(prefix, name) if prefix else package_fact(name)


def _left_out(packages: Compared) -> Fact:
    """Return the fact of how many packages a node has that are not compared."""

    def value(node: NodeState) -> str:
        return str(packages.left_out(node))

    if packages.prefix:
        applies = partial(has, packages.prefix)
        return Fact(f"{NOT_COMPARED}:{packages.prefix}", _ROW, value, applies)
    return Fact(NOT_COMPARED, _ROW, value, are_read, is_as_a_whole)


def package_fact(name: str) -> Fact:
    """Return the fact of a package in the environments that are compared at once."""
    return Fact(
        f"{PACKAGE}{name}",
        _ROW,
        lambda node: version(node, name),
        are_read,
        is_as_a_whole,
        is_managed=lambda wanted: name in pins(wanted),
        unmet=lambda node, wanted: is_unmet(node, wanted, name),
        about=name,
    )


def package_fact_of(prefix: str, name: str) -> Fact:
    """Return the fact of a package in one of the environments that no inventory names."""

    def value(node: NodeState) -> str | None:
        environment = node.nccl.environments[prefix]
        return None if environment is None else environment.packages.get(name, "none")

    package = Package(name, prefix)
    return Fact(f"{PACKAGE}{package}", _ROW, value, partial(has, prefix), about=package)
