"""Files that nodes share: one node of a run changes them for all."""

from collections.abc import Callable
from typing import TypeVar

from pyinfra import host, logger

from gpu_node.deploy.engine.failures import put_behind
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.planning import plans
from gpu_node.deploy.engine.proof import refuse
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.rule import Rule
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.file_systems import Places, are_shared

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
        if name == plan.nodes.name:
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
    plan: Plan, what: str, places: PlacesOf, versions: Callable[[Plan], object], rule: Rule
) -> bool:
    """Whether the inventory has conflicting values for what a node may share with others.

    Then nothing is changed, because the nodes would undo each other's changes: it is logged and
    refused, as a finding of the rule that the change would repair.
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
            rule=rule.id,
            severity="error",
            subject=what,
            found=f"{plan.nodes.name} and {', '.join(others)} may share it, but want different "
            "versions",
            wanted="the same packages for all nodes that have it",
            cause="each node's repair would undo that of another one",
            fix=f"set the same versions for {plan.nodes.name} and {', '.join(others)} in the "
            "inventory",
            fixable=False,
            step=rule.area,
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
        if name != plan.nodes.name and _share(plan, other, places)
    ]
    return [plan.nodes.name, *others]


def _share(plan: Plan, other: Plan, places: PlacesOf) -> bool | None:
    """Whether two nodes share files; None if unknown."""
    return are_shared(places(plan.state), _of(lambda each: places(each.state), other))


def _of(ask: Callable[[Plan], T], other: Plan) -> T | None:
    """Return a value of another node's plan; None if it cannot be computed."""
    try:
        return ask(other)
    except Exception:  # of whatever class: its own part of the run reports it
        return None


def may_be_shared(places: Places | None) -> bool:
    """Whether other machines may have some of these files; also if that is unknown."""
    return places is None or any(place.is_network for place in places.values())
