"""The ends between which ports are tried: each node's address for jobs, where it may take part."""

from collections import Counter
from collections.abc import Mapping
from datetime import date

from gpu_node.drift.engine.nodes import plain
from gpu_node.drift.engine.switches import is_on
from gpu_node.drift.network.interfaces import AUTO, choose
from gpu_node.drift.network.reach import outward
from gpu_node.facts.ask.gather import MOST_OPEN, Answer
from gpu_node.facts.network.state import NetworkState
from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.fields.addresses import is_address, is_loopback
from gpu_node.inventories.wanted import NetworkWanted, NodeWanted

# Fields of the state of a node's ports.
Fields = dict[str, str]


def ends(answers: Mapping[str, Answer]) -> dict[str, Fields]:
    """Return `address` and `interface` of nodes that try ports, or why one is `untried`.

    A node has neither whose rule about it is off, or that has no GPUs for jobs: nothing is sent
    there. Nor has any where fewer than two are left.
    """
    found = {
        name: _end(answer.state.network, wanted)
        for name, answer in answers.items()
        if answer.state is not None and (wanted := _wanted(answer)) is not None
    }
    claims = Counter(each.get("address") for each in found.values())
    for name, each in found.items():
        if len(answers) > MOST_OPEN:
            found[name] = {"untried": f"the report has more than {MOST_OPEN} nodes"}
        elif "address" in each and claims[each["address"]] > 1:
            found[name] = {"untried": f"{each['address']} is the address of another node, too"}
    return {name: found.get(name, {}) if len(found) > 1 else {} for name in answers}


def _wanted(answer: Answer) -> NodeWanted | None:
    """Return what the inventory wants of a node that may take part."""
    try:
        wanted = NodeWanted.from_data(answer.data)
    except InventoryError:  # it ends the report
        return None
    may = is_on("ports.blocked", wanted, date.today()) and not wanted.is_cpu_node
    return wanted if may else None


def _end(state: NetworkState, wanted: NodeWanted) -> Fields:
    network, own = wanted.network or NetworkWanted(interface=AUTO), plain(wanted.address)
    choice = choose(state, network, wanted.address)
    if choice.name is None:
        return {"untried": choice.why}
    listed = [plain(each) for each in outward(state, choice.name)]
    usable = [each for each in listed if not is_loopback(each)]
    if not usable:
        return {"untried": f"{choice.name} has no address that another machine reaches"}
    address = min(usable, key=lambda each: (each != own, ":" in each))
    if network.interface == AUTO and is_address(own) and address != own:
        # Behind NAT: where the others are its address may be another machine's.
        return {"untried": f"no interface has {own}"}
    return {"address": address, "interface": choice.name}
