"""Files that nodes share: one node of a run changes them, and none may be at work with them."""

from __future__ import annotations

from collections.abc import Callable

from gevent.pool import Pool
from pyinfra import host, logger
from pyinfra.api import Host, State

from deploy.before import states
from deploy.plan import Plan, plans
from deploy.proof import refuse
from deploy.round import PARALLEL
from deploy.scripts import script
from drift.finding import Finding
from drift.report.visible import visible
from facts.file_systems import Places, are_shared
from facts.nccl import PLACES_SECTION, parse_environment_places
from facts.nccl import places as asked_places
from facts.node import NodeState, placed
from facts.session import ask, fresh

_IDLE_SECONDS = 60
PlacesOf = Callable[[NodeState], "Places | None"]


def is_writer(plan: Plan, what: str, places: PlacesOf, wants: Callable[[Plan], bool]) -> bool:
    """Whether a node is the one that changes files that it may share with others of the run.

    It is the first that `wants` to. The others log who changes them: `what` is their name there.
    """
    for name, other in plans(host.state).items():
        if name == plan.among.name:
            break
        if wants(other) and are_shared(places(plan.found), places(other.found)) is not False:
            logger.info(f"{host.print_prefix}{what}: {name} changes it, which may share it")
            return False
    return True


def wishes_differ(plan: Plan, what: str, places: PlacesOf, wish: Callable[[Plan], object]) -> bool:
    """Whether the inventory wants other things of what a node may share with others of the run.

    Then nothing is changed: each node would undo what another one wants. It is logged, and refused.
    """
    mine, own = places(plan.found), wish(plan)
    others = [
        name
        for name, other in plans(host.state).items()
        if wish(other) and wish(other) != own and are_shared(mine, places(other.found)) is not False
    ]
    if others:
        finding = Finding(
            rule="toolchain.package-differs",
            severity="error",
            subject=what,
            found=f"{plan.among.name} and {', '.join(others)} may share it, with different wishes",
            wanted="the same packages for all nodes that have it",
            cause="each node's repair would undo that of another one",
            fix=f"say the same versions for {plan.among.name} and {', '.join(others)} in the "
            "inventory",
            fixable=False,
            step="toolchain",
        )
        refuse(
            name=f"Leave {what}: the inventory wants different packages in it", findings=[finding]
        )
    return bool(others)


def nodes_sharing(plan: Plan, places: PlacesOf) -> list[str]:
    """Return the nodes of the run that have the same files, this one at the head."""
    mine = places(plan.found)
    others = [
        name
        for name, other in plans(host.state).items()
        if name != plan.among.name and are_shared(mine, places(other.found))
    ]
    return [plan.among.name, *others]


def may_be_shared(places: Places | None) -> bool:
    """Whether other machines may have some of these files; unknown is not no."""
    return places is None or any(each.is_network for each in places.values())


def refuse_if_in_use(state: State, host: Host, environment: str) -> bool:
    """Refuse where a process uses a GPU on another node of the inventory that may share a folder.

    Nodes that this run leaves out are asked as well, over a connection of their own.
    """
    mine = _known(host, environment)
    others = [each for each in state.inventory if each is not host]
    told = Pool(PARALLEL).map(lambda other: _hindrance(state, other, environment, mine), others)
    found = [each for each in told if each]
    for each in found:
        logger.error(f"{host.print_prefix}{environment}: {visible(each)}")
    return not found


def _known(host: Host, environment: str) -> Places | None:
    """Return where an environment lies on a node of the run, as far as that was told before it."""
    found = states(host.state).get(host.name)
    return placed(environment, found) if found else None


def _hindrance(state: State, other: Host, environment: str, mine: Places | None) -> str | None:
    """Return why an environment may not be changed because of another node; None where it may."""
    try:
        if other.name in states(state):
            theirs = _known(other, environment)
        else:
            theirs = _asked(other, environment)
        if are_shared(mine, theirs) is False:
            return None
        return _in_use(other)
    except Exception as error:  # sockets, paramiko, pyinfra: of many classes, and all mean the same
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
    data = other.data.dict()
    sudo = {key: data[key] for key in ("_sudo", "_sudo_password") if data.get(key)}
    with fresh(other) as connector:
        done, output = connector.run_shell_command(
            script("idle", allow="no"), False, False, _timeout=_IDLE_SECONDS, **sudo
        )
    if done:
        return None
    said = [line for line in (*output.stdout_lines, *output.stderr_lines) if line.strip()]
    return (
        f"{other.name}, which may share it: {said[-1] if said else 'no word on whether it is idle'}"
    )
