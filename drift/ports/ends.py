"""The ends between which ports are tried: each node's address for jobs, where it may take part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from pyinfra.api import Host

from gpu_node.drift.engine.nodes import plain
from gpu_node.drift.engine.switches import is_on
from gpu_node.drift.network.interfaces import AUTO, choose
from gpu_node.drift.network.reach import outward
from gpu_node.facts.ask.gather import MOST_OPEN, Answer
from gpu_node.facts.node import NodeState
from gpu_node.facts.ports.trying import End, try_ports
from gpu_node.inventories.fields.addresses import is_address, is_loopback
from gpu_node.inventories.schema import InventoryError, NetworkWanted, NodeWanted

BLOCKED = "ports.blocked"


def with_ports(answers: Mapping[Host, Answer]) -> dict[Host, Answer]:
    """Return the answers of nodes, with what they tried together where two or more answered.

    Nothing is sent to a node whose rule about it is off, and to one without GPUs for jobs.
    """
    wanted = {host: each for host, answer in answers.items() if (each := _wanted(answer))}
    if len(wanted) < 2:
        return dict(answers)
    listed = {host: _end(host, answers[host], each) for host, each in wanted.items()}
    claims = Counter(plain(each["address"]) for each in listed.values() if "address" in each)
    ends = {}
    for host, found in listed.items():
        address = found.get("address")
        if len(answers) > MOST_OPEN:
            found["untried"] = f"the report has more than {MOST_OPEN} nodes"
        elif address is not None and claims[plain(address)] > 1:
            found["untried"] = f"{address} is the address of another node, too"
        elif address is not None:
            ends[host.name] = End(host, address)
    results = try_ports(ends) if len(ends) > 1 else {}
    for host, found in listed.items():
        found |= results.get(host.name, {})
    return {host: _with(answer, listed.get(host, {})) for host, answer in answers.items()}


def _wanted(answer: Answer) -> NodeWanted | None:
    """Return what the inventory wants of a node that may take part."""
    try:
        wanted = NodeWanted.from_data(answer.data)
    except InventoryError:  # it ends the report
        return None
    may = is_on(BLOCKED, wanted, date.today()) and not wanted.is_cpu_node
    return wanted if may and answer.state is not None else None


def _end(host: Host, answer: Answer, wanted: NodeWanted) -> dict[str, Any]:
    """Return address and interface of a node, or why it has none at which jobs are reached."""
    state: NodeState = answer.state  # type: ignore[assignment]
    network = wanted.network or NetworkWanted(interface=AUTO)
    choice, own = choose(state.network, network, wanted.address), plain(wanted.address)
    if choice.name is None:
        return {"untried": choice.why}
    usable = [plain(each) for each in outward(state.network, choice.name)]
    usable = [each for each in usable if not is_loopback(each)]
    usable.sort(key=lambda each: (each != own, ":" in each))
    if not usable:
        return {"untried": f"{choice.name} has no address that another machine reaches"}
    if network.interface == AUTO and is_address(own) and usable[0] != own:
        # Behind NAT: where the others are its address may be another machine's.
        return {"untried": f"no interface has {own}"}
    return {"address": usable[0], "interface": choice.name}


def _with(answer: Answer, found: Mapping[str, Any]) -> Answer:
    if answer.state is None or not found:
        return answer
    ports = answer.state.ports.model_copy(update=found)
    return replace(answer, state=answer.state.model_copy(update={"ports": ports}))
