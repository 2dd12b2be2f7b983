"""The register of areas: each room has a folder for each name and loads what it needs from it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the names alone must be quick to have: --help and inventories list them
    from gpu_node.facts.checks import ChecksState
    from gpu_node.facts.clock import ClockState
    from gpu_node.facts.driver.state import DriverState
    from gpu_node.facts.env.state import EnvState
    from gpu_node.facts.fabric import FabricState
    from gpu_node.facts.host.state import HostState
    from gpu_node.facts.job.state import JobState
    from gpu_node.facts.limits.state import LimitsState
    from gpu_node.facts.nccl.state import NcclState
    from gpu_node.facts.network.state import NetworkState
    from gpu_node.facts.own import OwnState
    from gpu_node.facts.ports.state import PortsState
    from gpu_node.facts.shm.state import ShmState
    from gpu_node.facts.ssh.state import SshState
    from gpu_node.facts.toolchain.state import ToolchainState
    from gpu_node.facts.workspace.state import WorkspaceState


class Areas:
    """The state of each area, in the order of a report."""

    driver: DriverState
    fabric: FabricState
    shm: ShmState
    limits: LimitsState
    toolchain: ToolchainState
    nccl: NcclState
    ssh: SshState
    network: NetworkState
    ports: PortsState
    env: EnvState
    workspace: WorkspaceState
    clock: ClockState
    host: HostState
    own: OwnState
    checks: ChecksState
    job: JobState


AREAS = tuple(Areas.__annotations__)
# The id of a rule, AREA.NAME, as a pattern.
RULE_ID = r"[a-z][a-z0-9]*\.[a-z][a-z0-9-]*"


def area_folder(room: str, area: str, needed: str) -> ModuleType:
    """Import the folder of an area; without it, the error says which file is `needed`."""
    name = f"gpu_node.{room}.{area}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(
            f"facts/areas.py registers the area {area}, but {room}/{area}/__init__.py does not "
            f"exist; add it: {needed}"
        ) from None
