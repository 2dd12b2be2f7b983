"""Judges the nodes of a run, all together, and makes the plan of each, once."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError

from gpu_node.deploy.engine.baseline import nodes_of, state_of, states
from gpu_node.deploy.engine.failures import areas
from gpu_node.deploy.engine.plan import Plan, hooks
from gpu_node.deploy.engine.run import Slot, node_of, run_of
from gpu_node.deploy.engine.scope import part_of
from gpu_node.drift.engine.check import judge
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.judgement import Judgement
from gpu_node.drift.engine.nodes import Judged
from gpu_node.drift.ranges import ranges
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import not_understood
from gpu_node.facts.probe.request import request_of
from gpu_node.inventories.connection.names import INVENTORY
from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.escape import visible
from gpu_node.inventories.value_places import ValuePlaces
from gpu_node.inventories.wanted import NodeWanted

# The judgements, and the states of each: states are compared by identity, and must live as long as
# the judgement.
_Judged = dict[frozenset[tuple[str, int]], tuple[Mapping[str, NodeState], Judgement]]
_JUDGED: Slot[_Judged] = Slot(dict)
# The plan of each node, or why there is none.
_PLANS: Slot[dict[str, Plan | ProbeError | PyinfraError]] = Slot(dict)


def wanted_of(host: Host) -> NodeWanted:
    """Return the wanted state of a host (inventory, --data); PyinfraError names a bad value."""
    try:
        return NodeWanted.from_data(host.data.dict())
    except InventoryError as error:
        inventory = host.data.get(INVENTORY)
        if inventory is None:
            raise PyinfraError(f"{host.name}: {error}") from error
        lines = ValuePlaces(inventory).explained(error, host.name, host.groups, host.data.dict())
        raise PyinfraError("\n".join(lines)) from error


def judged(state: State, read: Mapping[str, NodeState]) -> Judgement:
    """Return the judgement of those nodes of a run whose states are in `read`.

    Raises PyinfraError if the inventory wants something impossible of a node.
    """
    made = run_of(state).of(_JUDGED)
    key = frozenset((name, id(each)) for name, each in read.items())
    if key not in made:
        known = dict(read)
        hosts = [host for host in state.inventory if host.name in known]
        nodes = {
            host.name: Judged(known[host.name], wanted_of(host), nodes_of(host, known))
            for host in hosts
        }
        made[key] = (known, judge(nodes))
    return made[key][1]


def findings_of(host: Host, read: Mapping[str, NodeState]) -> list[Finding]:
    """Return the findings about a host, judged together with the other nodes in `read`."""
    return judged(host.state, read).findings[host.name]


def plan(host: Host) -> Plan | None:
    """Probe a host, once, and judge it; if that is impossible, fail the host, return None."""
    try:
        plan = _planned(host)
        if changes(plan):
            for hook in hooks():
                hook.require(host, plan.state)
    except ProbeError as error:
        logger.error(f"{host.print_prefix}{visible(str(error))}")
        # In a deploy file `host` is a proxy for the current host, and must not be kept.
        host.state.fail_hosts({host.state.inventory.get_host(host.name)})
        return None
    return plan


def plans(state: State) -> dict[str, Plan]:
    """Return the plans of the nodes of a run, in their order, without nodes that cannot be planned.

    The host's own `plan` reports the reason.
    """
    planned: dict[str, Plan] = {}
    for host in (each for each in state.inventory if each in state.active_hosts):
        with suppress(ProbeError, PyinfraError):
            planned[host.name] = _planned(host)
    return planned


def unread(state: State) -> dict[str, ProbeError]:
    """Return why nodes of a run could not be read or planned, so far."""
    made = run_of(state).of(_PLANS)
    return {name: each for name, each in made.items() if isinstance(each, ProbeError)}


def changes(plan: Plan) -> bool:
    """Whether the run changes a node."""
    return plan.is_repaired or any(hook.changes(plan) for hook in hooks())


def any_changes(state: State) -> bool:
    """Whether this run changes a node: then each node is judged again afterwards."""
    return any(changes(each) for each in plans(state).values())


def shown_plan(state: State) -> Iterator[str]:
    """Yield what each operation of a dry run would change on which nodes, and lines of files."""
    for operation in state.get_op_order():
        on: dict[tuple[str, ...], list[str]] = {}
        for host in state.inventory.iter_activated_hosts():
            made = state.ops[host].get(operation)
            if made and made.operation_meta.will_change and areas(made.global_arguments):
                lines = node_of(host).lines.get(operation, ())
                on.setdefault(tuple(lines), []).append(host.name)
        name = ", ".join(sorted(state.get_op_meta(operation).names))
        for shown, names in on.items():
            yield f"{name} on {ranges(names)}: {'' if shown else 'by a script'}".rstrip()
            yield from (f"  {line}" for line in shown)


def _planned(host: Host) -> Plan:
    """Return the plan for a host, made once in a run; raises ProbeError and PyinfraError."""
    made = run_of(host.state).of(_PLANS)
    if host.name not in made:
        try:
            made[host.name] = plan = _plan(host)
            # Each node asks whether another one changes: an error in that must break only its own
            # plan.
            changes(plan)
        except (ProbeError, PyinfraError) as error:
            made[host.name] = error
        except Exception as error:  # of whatever class: an answer of the node's made it
            made[host.name] = ProbeError(not_understood(error))
    known = made[host.name]
    if isinstance(known, Exception):
        raise known
    return known


def _plan(host: Host) -> Plan:
    """Judge a host by the only probe of this run; raises ProbeError and PyinfraError."""
    wanted, state, before = wanted_of(host), state_of(host), states(host.state)
    judgement = judged(host.state, before)
    # If no rule between nodes can judge an answer, no other node is changed because of it.
    sound = {name: each for name, each in before.items() if name not in judgement.blamed}
    nodes = nodes_of(host, sound)
    switches = ("allow_disruption", "reboot", "override_locks")
    allowed, reboot, override = (host.data.get(key) is True for key in switches)
    findings = part_of(host).of(host.name, judgement.findings[host.name])
    muted = part_of(host).of(host.name, judgement.muted.get(host.name, ()))
    trainer = request_of(host.data.dict()).user or "root"
    return Plan(wanted, state, findings, nodes, allowed, reboot, trainer, override, muted)
