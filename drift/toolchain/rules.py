"""Toolchain rules: the cmake that a build on this node would really use."""

from collections.abc import Iterator

from packaging.version import Version

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.facts.toolchain.state import LINK_DIR as LINK_DIR
from gpu_node.facts.toolchain.state import Cmake, Cmakes, ToolchainState
from gpu_node.inventories.wanted import ToolchainWanted

# Where a run of the deploy keeps what it moves away.
BACKUPS = "/var/backups/gpu-node/RUN"


def _meets(cmake: Cmake, wanted: str) -> bool:
    return cmake.version is not None and Version(cmake.version) >= Version(wanted)


def _shown(cmake: Cmake) -> str:
    return f"{cmake.version or f'broken ({cmake.output[:60]})'} at {cmake.path}"


def _before_links(cmakes: Cmakes) -> list[Cmake]:
    """Return the cmakes that PATH reaches before LINK_DIR; all of them if it is not in PATH."""
    if LINK_DIR not in cmakes.path:
        return list(cmakes.found)
    ahead = cmakes.path[: cmakes.path.index(LINK_DIR)]
    return [cmake for cmake in cmakes.found if cmake.path.rpartition("/")[0] in ahead]


def _is_met(state: ToolchainState, wanted: ToolchainWanted) -> bool:
    """Whether there is nothing to say about cmake: not managed, not readable, or right."""
    if wanted.cmake is None or state.cmake is None:
        return True
    return bool(state.cmake.found) and _meets(state.cmake.found[0], wanted.cmake.version)


def moved_away(cmakes: Cmakes, version: str) -> str:
    """Return what the deploy moves to its backups for the links of a release; empty for nothing."""
    paths = ", ".join(cmakes.taken)
    moved = f"{paths}: moved to {BACKUPS} first" if paths else ""
    prefix = f"/opt/cmake-{version}"
    broken = f"{prefix}: moved to {BACKUPS} if its cmake does not run"
    return "; ".join(filter(None, (moved, broken if prefix in cmakes.releases else "")))


def _linking(cmakes: Cmakes, version: str, text: str) -> str:
    moved = moved_away(cmakes, version)
    return f"{text}; {moved}" if moved else text


@check("toolchain.cmake-old")
def cmake_old(at: At[ToolchainState, ToolchainWanted]) -> Iterator[Fault]:
    if _is_met(at.here, at.want) or at.want.cmake is None or at.here.cmake is None:
        return
    if any(_meets(cmake, at.want.cmake.version) for cmake in at.here.cmake.found):
        return  # there is one, behind another: that is toolchain.cmake-shadowed
    release = f"/opt/cmake-{at.want.cmake.version}"
    reached = LINK_DIR in at.here.cmake.path
    yield Fault(
        subject="cmake",
        found=_shown(at.here.cmake.found[0]) if at.here.cmake.found else "none in PATH",
        wanted=f"{at.want.cmake.version} or newer",
        fix=_linking(
            at.here.cmake,
            at.want.cmake.version,
            f"unpack the release into {release} and link its programs in {LINK_DIR}",
        )
        if reached
        else f"put {LINK_DIR} into the PATH of non-interactive shells",
        fixable=reached,
    )


@check("toolchain.cmake-shadowed")
def cmake_shadowed(at: At[ToolchainState, ToolchainWanted]) -> Iterator[Fault]:
    if _is_met(at.here, at.want) or at.want.cmake is None or at.here.cmake is None:
        return
    version = at.want.cmake.version
    right = [cmake for cmake in at.here.cmake.found if _meets(cmake, version)]
    ahead = [cmake for cmake in _before_links(at.here.cmake) if not _meets(cmake, version)]
    if not right and not ahead:
        return
    shadow = ahead[0] if ahead else at.here.cmake.found[0]
    yield Fault(
        subject=Path(shadow.path),
        found=_shown(shadow),
        wanted=_shown(right[0]) if right else f"{version} or newer in {LINK_DIR}",
        cause=f"PATH of a non-interactive shell reaches {shadow.path} first: builds use that one",
        fix=""
        if ahead
        else _linking(at.here.cmake, version, f"link the programs of {version} in {LINK_DIR}"),
        names={"FILE": shadow.path},
        fixable=not ahead,
    )
