"""Toolchain: the wanted cmake in a prefix of its own, first in PATH by symlinks."""

from __future__ import annotations

from pyinfra.api import deploy

from deploy.operations import toolchain
from deploy.plan import Plan
from drift.rules.toolchain import LINK_DIR


@deploy("Toolchain")
def converge(plan: Plan) -> None:
    """Repair what the toolchain rules found."""
    wanted = plan.wanted.toolchain
    if wanted is None or wanted.cmake is None:
        return
    if plan.repairs("toolchain.cmake-old", "toolchain.cmake-shadowed"):
        toolchain.cmake(
            name=f"Link cmake {wanted.cmake.version}",
            version=wanted.cmake.version,
            url=wanted.cmake.url,
            sha256=wanted.cmake.sha256,
            fetch=wanted.cmake.fetch,
            links=LINK_DIR,
        )
