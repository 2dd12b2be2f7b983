"""Fabric rules: the NVSwitches have their manager, and every NVLink works."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.host.machine import is_container
from gpu_node.facts.fabric import Switches

# Modules on a board with NVLink, whose links are all in use. The links of a PCIe card need bridges,
# which a server may lack on purpose.
_ON_A_BOARD = re.compile(r"SXM|HBM3|\b(H20|H200|H800|B200)(?! PCIe| NVL)\b")


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
        yield Fault(subject="fabric manager", found=switches.version, wanted=loaded.nvidia)


def shown(switches: Switches) -> str:
    """Return the NVSwitches and the state of their manager as text."""
    ids = ", ".join(dict.fromkeys(each.id.removeprefix("0x") for each in switches.found))
    state = "does not run" if switches.installed else "is not installed"
    state = "runs" if switches.running else state
    return f"{len(switches.found)} (10de:{ids}), fabric manager {state}"


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
