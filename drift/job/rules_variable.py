"""Job rules about the variables of the ranks, and the interfaces that they name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import ip_interface
from typing import TYPE_CHECKING

from gpu_node.drift.engine.nodes import Nodes, plain
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Variable
from gpu_node.drift.job.names import MPIRUN, UNKNOWN
from gpu_node.drift.job.rules import job_in
from gpu_node.drift.network.ifname import oldest
from gpu_node.drift.network.interfaces import candidates, is_never, is_unset, selected
from gpu_node.drift.network.reach import Ends, carriers, ends_at, outward, unreached
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.nccl_variables import is_unknown, misread, suggestion

if TYPE_CHECKING:  # what reads a line is for check-job alone
    from gpu_node.drift.job.job import Job


_GLOO = "GLOO_SOCKET_IFNAME"
# How a rank ends that finds no interface, and what to do.
_NO_INTERFACE = {
    IFNAME: (
        "NCCL ends with 'Bootstrap : no socket interface found' on this node",
        "name a prefix of each node's interface (bond0,eno1), or leave it to /etc/nccl.conf",
    ),
    _GLOO: (
        "Gloo ends with 'Unable to find address for: NAME' on this node",
        "name the interface of each node on that node, or leave it out",
    ),
}


@check("job.variable")
def variable(at: At) -> Iterator[Fault]:
    job = job_in(at.nodes)
    if at.nodes.name == job.launcher and job.given.launch.kind == MPIRUN:
        yield from _of_open_mpi(at.node, at.nodes, job)
    is_of_several = at.nodes.name in job.members and len(job.members) > 1
    for name, value in job.given.variables(at.nodes.name == job.launcher).items():
        if UNKNOWN in value:
            continue
        if name in _ENDS and is_of_several and not is_unset(value):
            yield from _interface(at.node, at.nodes, name, value)
        if at.nodes.name != job.launcher:
            continue
        if is_unknown(name):
            near = suggestion(name)
            yield Fault(
                Variable(name),
                f"no library reads {name}",
                near or "a name that a library reads",
                severity="warning",
            )
        elif wrong := misread(name, value):
            yield Fault(Variable(name), f"{value!r} {wrong}", "a valid value", severity="warning")


def _interface(state: NodeState, nodes: Nodes, name: str, value: str) -> Iterator[Fault]:
    names = candidates(state.network, oldest(state)) if state.network.links else []
    if not names:
        return
    fit = ", ".join(each for each in names if not is_never(each))
    fault = partial(
        Fault,
        Variable(name),
        wanted=f"one of {fit}" if fit else "an interface that reaches the other nodes",
        fix=_NO_INTERFACE[name][1],
    )
    chosen = _selected(state, name, value)
    if not chosen:
        cause = _NO_INTERFACE[name][0]
        yield fault(f"{value} selects no interface", cause=cause)
    for each in chosen:
        if why := unreached(nodes.name, state.network, each, nodes.once(_ENDS[name])):
            cause = "the ranks listen there: the other nodes wait to connect, and the job hangs"
            yield fault(f"{value} selects {each}: {why[0]}", cause=cause, severity=why[1])


def _selected(state: NodeState, name: str, value: str) -> list[str]:
    """Return the interfaces that a value selects; Gloo takes whole names."""
    whole = "=" if name == _GLOO else ""
    return selected(whole + value, candidates(state.network, oldest(state)))


def _ends(name: str, nodes: Nodes) -> Ends:
    """Return where the ranks listen on each node of the job, by a variable of the line."""
    job = job_in(nodes)

    def taken(node: str, state: NodeState) -> list[str]:
        value = job.given.variables(node == job.launcher).get(name)
        return _selected(state, name, value) if value and node in job.members else []

    return ends_at(nodes, taken)


_ENDS = {name: partial(_ends, name) for name in (IFNAME, _GLOO)}


def _of_open_mpi(state: NodeState, nodes: Nodes, job: Job) -> Iterator[Fault]:
    """Yield that Open MPI would connect to an address that each of two nodes has for itself.

    Its FAQ about TCP: it takes each interface that is up, but loopback.
    """
    launch, given = job.given.launch, job.given.variables(True)
    btl = given.get("OMPI_MCA_btl", "tcp")
    is_tcp = ("tcp" in btl) != btl.startswith("^") and given.get("OMPI_MCA_pml", "ob1") == "ob1"
    is_chosen = any(name.startswith("OMPI_MCA_btl_tcp_if_") for name in given)
    is_other = launch.is_hydra or launch.is_inside or is_chosen or not is_tcp
    if is_other or state.network.infiniband:
        return
    at = ends_at(nodes, lambda name, state: _up(state) if name in job.members else []).nodes_at
    own = [
        (each, plain(address)) for each in _up(state) for address in outward(state.network, each)
    ]
    name, address = next((each for each in own if len(at.get(each[1], ())) > 1), ("", ""))
    if name:
        links = carriers(nodes)
        right = ends_at(nodes, lambda name, _: [links[name].name] if name in links else [])
        networks = {str(ip_interface(each[0]).network) for each in right.of_node.values()}
        network = ",".join(sorted(networks)) or "NETWORK"
        same = sorted(at[address] - {nodes.name})
        yield Fault(
            Variable("btl_tcp_if_include"),
            f"not in the line, and {name} has {address} here and on {', '.join(same[:8])}",
            "the network of the nodes",
            "Open MPI connects over every interface that is up: ranks connect to their own node "
            "there, and wait",
            f"add --mca btl_tcp_if_include {network} --mca oob_tcp_if_include {network}",
            severity="warning",
        )


def _up(state: NodeState) -> list[str]:
    links = state.network.links or ()
    return [link.name for link in links if link.up and link.kind != "loopback"]
