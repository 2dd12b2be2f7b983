"""What the report shows of the toolchain: cmake, packages of Python environments, the system."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from gpu_node.drift.driver.boot import short
from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.engine.subject import Package
from gpu_node.drift.nccl.compared import folders, has, is_as_a_whole
from gpu_node.drift.toolchain import rules, versions
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
from gpu_node.drift.toolchain.rules_packages import package_differs
from gpu_node.drift.toolchain.rules_versions import cmake_differs
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


def cmake(node: NodeState) -> str | None:
    if node.toolchain.cmake is None:
        return None
    first = node.toolchain.cmake.found[:1]
    return (first[0].version or "broken") if first else "none"


def cmake_path(node: NodeState) -> str | None:
    if node.toolchain.cmake is None:
        return None
    first = node.toolchain.cmake.found[:1]
    return first[0].path if first else "none"


def _is_cmake_managed(wanted: NodeWanted) -> bool:
    return wanted.toolchain is not None and wanted.toolchain.cmake is not None


FACTS = (
    Fact(
        "toolchain.cmake",
        "must-equal",
        (rules.cmake_old, rules.cmake_shadowed),
        cmake,
        cmake_differs,
        _is_cmake_managed,
    ),
    Fact("toolchain.cmake_path", "per-host", (), cmake_path),
    *versions.FACTS,
    Fact("toolchain.os", "per-host", (), lambda node: node.toolchain.os, is_last=True),
    Fact(
        "toolchain.kernel",
        "per-host",
        (),
        lambda node: short(node.toolchain.kernel),
        is_last=True,
    ),
)


def of_nodes(nodes: Iterable[NodeState]) -> tuple[Fact, ...]:
    """Return a fact for each package of the environments that is compared between these nodes.

    What one node alone may have is behind what most have: where rows are few, it takes none of
    theirs.
    """
    nodes = [*nodes]
    several = compared(nodes, folders(nodes))
    common = [_package(each.prefix, name) for each in several for name in sorted(each.common)]
    rare = [_package(each.prefix, name) for each in several for name in sorted(each.rare)]
    more = [_left_out(each) for each in several if any(map(each.left_out, nodes))]
    return (*versions.of_folders(nodes), *common, *rare, *more)


def _package(prefix: str, name: str) -> Fact:
    return package_fact_of(prefix, name) if prefix else package_fact(name)


def _left_out(packages: Compared) -> Fact:
    """Return the fact of how many packages a node has that are not compared."""
    prefix = packages.prefix
    return Fact(
        f"{NOT_COMPARED}:{prefix}" if prefix else NOT_COMPARED,
        "must-equal",
        (),
        lambda node: str(packages.left_out(node)),
        package_differs,
        applies=partial(has, prefix) if prefix else are_read,
        compares=(lambda node: True) if prefix else is_as_a_whole,
    )


def package_fact(name: str) -> Fact:
    def is_managed(wanted: NodeWanted) -> bool:
        return name in pins(wanted)

    def value(node: NodeState) -> str:
        return version(node, name)

    def unmet(node: NodeState, wanted: NodeWanted) -> bool:
        return is_unmet(node, wanted, name)

    return Fact(
        f"{PACKAGE}{name}",
        "must-equal",
        (),
        value,
        package_differs,
        is_managed,
        are_read,
        unmet=unmet,
        label=name,
        compares=is_as_a_whole,
    )


def package_fact_of(prefix: str, name: str) -> Fact:
    """Return the fact of a package in one of the environments that no inventory names."""

    def value(node: NodeState) -> str | None:
        environment = node.nccl.environments[prefix]
        return None if environment is None else environment.packages.get(name, "none")

    package = Package(name, prefix)
    return Fact(
        f"{PACKAGE}{package}",
        "must-equal",
        (),
        value,
        package_differs,
        applies=lambda node: has(prefix, node),
        label=str(package),
        package=package,
    )
