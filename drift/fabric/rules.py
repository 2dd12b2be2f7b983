"""Fabric rules: the NVSwitches have their manager, and every NVLink and port works."""

import re
from collections import defaultdict
from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.host.machine import is_container
from gpu_node.drift.ranges import ranges
from gpu_node.facts.fabric import Switches
from gpu_node.inventories.plurals import counted

# Modules on a board with NVLink, whose links are all in use. The links of a PCIe card need bridges,
# which a server may lack on purpose.
_ON_A_BOARD = re.compile(r"SXM|HBM3|\b(H20|H200|H800|B200)(?! PCIe| NVL)\b")
# GPUs whose memory no card of the network may reach, and ports whose library has its own way.
_FOR_DESKTOPS, _OMNI_PATH = re.compile("GeForce|TITAN"), ("hfi1", "opa")


@check("fabric.manager-down")
def manager_down(at: At) -> Iterator[Fault]:
    switches = at.node.fabric.switches
    if switches is None or not switches.found or switches.running or is_container(at.node):
        return  # the manager of a container's host is not among its processes
    yield Fault(
        subject="fabric manager",
        found=shown(switches),
        wanted="it runs",
    )


@check("fabric.manager-version")
def manager_version(at: At) -> Iterator[Fault]:
    switches, loaded = at.node.fabric.switches, at.node.driver.loaded
    if not switches or not switches.found or loaded is None or not loaded.nvidia:
        return
    if switches.version and switches.version != loaded.nvidia:
        names = {"BRANCH": loaded.nvidia.partition(".")[0], "VERSION": loaded.nvidia}
        yield Fault("fabric manager", switches.version, loaded.nvidia, names=names)


def shown(switches: Switches) -> str:
    """Return the NVSwitches and the state of their manager as text."""
    ids = ", ".join(dict.fromkeys(each.id.removeprefix("0x") for each in switches.found))
    state = "does not run" if switches.installed else "is not installed"
    state = "runs" if switches.running else state
    return f"{len(switches.found)} (10de:{ids}), fabric manager {state}"


@check("fabric.ib-port-down")
def ib_port_down(at: At) -> Iterator[Fault]:
    def others(port: str, is_up: bool) -> list[str]:
        return [name for name in at.nodes.once(_by_port)[port, is_up] if name != at.nodes.name]

    ports = at.node.network.hca_ports or ()
    down = [port for port in ports if not port.is_active]
    # A spare port is down on the others too, or has another name there.
    found = [
        (port.name, port.state, others(port.name, True))
        for port in down
        if len(others(port.name, True)) > len(others(port.name, False))
    ]
    if ports and len(down) == len(ports) and not found and (up := others("", True)):
        found = [("InfiniBand", f"{counted(len(ports), 'port')}, none active", up)]
    for port, state, up in found:
        yield Fault(subject=port, found=state, wanted=f"ACTIVE, as on {ranges(up)}")


def _by_port(nodes: Nodes) -> dict[tuple[str, bool], list[str]]:
    """Return the nodes by a port's name, or "" for any, and whether it is active there."""
    having: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name, state in nodes.states.items():
        ports = state.network.hca_ports or ()
        for port in ports:
            having[port.name, port.is_active].append(name)
        having["", any(port.is_active for port in ports)].append(name)
    return having


@check("fabric.peermem")
def peermem(at: At) -> Iterator[Fault]:
    loaded, smi = at.node.driver.loaded, at.node.driver.smi
    if not loaded or not loaded.nvidia or loaded.is_open or loaded.peermem or not smi:
        return  # the open module hands its memory on by itself
    ports = [
        port.name
        for port in at.node.network.hca_ports or ()
        if port.is_active and port.layer == "InfiniBand" and not port.name.startswith(_OMNI_PATH)
    ]
    if ports and any(not _FOR_DESKTOPS.search(gpu.name) for gpu in smi.gpus):
        yield Fault("nvidia_peermem", "not loaded", f"loaded, for {', '.join(ports)}")


@check("fabric.nvlink-down")
def nvlink_down(at: At) -> Iterator[Fault]:
    links, smi = at.node.fabric.nvlinks, at.node.driver.smi
    if smi and any(gpu.mig for gpu in smi.gpus):
        return  # MIG turns them off
    for each in links.gpus if links else ():
        if each.active < each.links and _ON_A_BOARD.search(each.gpu):
            yield Fault(
                subject=each.gpu,
                found=f"{each.active} of {each.links} links work",
                wanted="all of them",
            )
