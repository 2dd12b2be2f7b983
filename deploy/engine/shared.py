"""Files that nodes share: one node of a run changes them, while no node may use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gevent.pool import Pool
from pyinfra import host, logger
from pyinfra.api import Host, State

from gpu_node.deploy.engine.ask_all import PARALLEL
from gpu_node.deploy.engine.baseline import states
from gpu_node.deploy.engine.failures import put_behind
from gpu_node.deploy.engine.plan import Plan, plans
from gpu_node.deploy.engine.proof import refuse
from gpu_node.deploy.engine.rights import of_inventory
from gpu_node.deploy.engine.scripts import script
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.toolchain.rules import package_differs
from gpu_node.facts.ask.execute import execute
from gpu_node.facts.ask.session import ask, fresh
from gpu_node.facts.nccl.state import PLACES_SECTION, parse_environment_places
from gpu_node.facts.nccl.state import places as asked_places
from gpu_node.facts.node import NodeState, placed
from gpu_node.facts.probe.file_systems import Places, are_shared
from gpu_node.inventories.escape import visible

_IDLE_SECONDS = 60
T = TypeVar("T")
PlacesOf = Callable[[NodeState], "Places | None"]


def is_writer(plan: Plan, what: str, places: PlacesOf, wants: Callable[[Plan], bool]) -> bool:
    """Whether a node changes files that it may share with others of the run.

    Of nodes that have the same files it is the first one that `wants` to: the others log which node
    that is; `what` names the files in the log. A node may report anything: only one that has the
    inode and the ctime of another node's files, which none can guess, does the work for it. If
    it is unknown whether files are shared, each node changes them, one after the other: the next
    one finds done what the first one has done.
    """
    unknown = []
    for name, other in plans(host.state).items():
        if name == plan.among.name:
            break
        is_shared = _share(plan, other, places) if _of(wants, other) else False
        if is_shared:
            logger.info(f"{host.print_prefix}{what}: {name}, which shares it, changes it")
            return False
        if is_shared is None:
            unknown.append(name)
    if unknown:
        listed = ", ".join(unknown)
        logger.info(f"{host.print_prefix}{what}: may be shared: changed here after {listed}")
        put_behind(host, unknown)
    return True


def versions_differ(
    plan: Plan, what: str, places: PlacesOf, versions: Callable[[Plan], object]
) -> bool:
    """Whether the inventory has conflicting values for what a node may share with others.

    Then nothing is changed, because the nodes would undo each other's changes: it is logged and
    refused.
    """
    own = versions(plan)
    others = [
        name
        for name, other in plans(host.state).items()
        if (theirs := _of(versions, other)) and theirs != own
        if _share(plan, other, places) is not False
    ]
    if others:
        finding = Finding(
            rule=package_differs.id,
            severity="error",
            subject=what,
            found=f"{plan.among.name} and {', '.join(others)} may share it, but want different "
            "versions",
            wanted="the same packages for all nodes that have it",
            cause="each node's repair would undo that of another one",
            fix=f"set the same versions for {plan.among.name} and {', '.join(others)} in the "
            "inventory",
            fixable=False,
            step="toolchain",
        )
        refuse(
            name=f"Keep {what}: the inventory wants different packages in it", findings=[finding]
        )
    return bool(others)


def nodes_sharing(plan: Plan, places: PlacesOf) -> list[str]:
    """Return the nodes of the run that have the same files, this one first."""
    others = [
        name
        for name, other in plans(host.state).items()
        if name != plan.among.name and _share(plan, other, places)
    ]
    return [plan.among.name, *others]


def _share(plan: Plan, other: Plan, places: PlacesOf) -> bool | None:
    """Whether two nodes share files; None if unknown."""
    return are_shared(places(plan.found), _of(lambda each: places(each.found), other))


def _of(ask: Callable[[Plan], T], other: Plan) -> T | None:
    """Return a value of another node's plan; None if it cannot be computed."""
    try:
        return ask(other)
    except Exception:  # of whatever class: its own part of the run reports it
        return None


def may_be_shared(places: Places | None) -> bool:
    """Whether other machines may have some of these files; also if that is unknown."""
    return places is None or any(each.is_network for each in places.values())


def refuse_if_in_use(state: State, host: Host, environment: str) -> bool:
    """Refuse if a process uses a GPU on another node of the inventory that may share a folder.

    Nodes that are not in this run are asked as well, over a separate connection.
    """
    mine = _known(host, environment)
    others = [each for each in state.inventory if each is not host]
    reasons = Pool(PARALLEL).map(lambda other: _hindrance(state, other, environment, mine), others)
    found = [each for each in reasons if each]
    for each in found:
        logger.error(f"{host.print_prefix}{environment}: {visible(each)}")
    return not found


def _known(host: Host, environment: str) -> Places | None:
    """Return the file systems of an environment on a node of the run, if its baseline has them."""
    found = states(host.state).get(host.name)
    return placed(environment, found) if found else None


def _hindrance(state: State, other: Host, environment: str, mine: Places | None) -> str | None:
    """Return why an environment may not be changed because of another node; None if it may."""
    try:
        if other.name in states(state):
            theirs = _known(other, environment)
        else:
            theirs = _asked(other, environment)
        if are_shared(mine, theirs) is False:
            return None
        return _in_use(other)
    except Exception as error:  # sockets, paramiko, pyinfra: many classes with the same meaning
        return (
            f"{other.name}, which may share it, cannot be asked whether a process there uses it "
            f"({str(error) or type(error).__name__}); nothing was changed: bring the node back, or "
            "give --data allow_disruption=true"
        )


def _asked(other: Host, environment: str) -> Places | None:
    with fresh(other) as connector:
        section = asked_places([environment])
        readings = ask(other, [section], connector)
    found = readings.take(PLACES_SECTION, parse_environment_places)
    return (found or {}).get(environment)


def _in_use(other: Host) -> str | None:
    with fresh(other) as connector:
        done, output = execute(
            connector, script("idle", allow="no"), _IDLE_SECONDS, of_inventory(other)
        )
    if done:
        return None
    lines = [line for line in (*output.stdout_lines, *output.stderr_lines) if line.strip()]
    reason = lines[-1] if lines else "whether it is idle is unknown"
    return f"{other.name}, which may share it: {reason}"
