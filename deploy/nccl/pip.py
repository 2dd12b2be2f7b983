"""pip in environments: where its wheels come from, and who uses an environment on other nodes."""

from collections.abc import Iterable
from typing import TypedDict

from gevent.pool import Pool
from pyinfra import logger
from pyinfra.api import Host, State

from gpu_node.deploy.engine.baseline import states
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.run import of_inventory
from gpu_node.deploy.engine.scripts import script
from gpu_node.facts.ask.execute import execute
from gpu_node.facts.ask.gather import PARALLEL
from gpu_node.facts.ask.session import ask, fresh
from gpu_node.facts.nccl.state import PLACES_SECTION, parse_environment_places
from gpu_node.facts.nccl.state import places as asked_places
from gpu_node.facts.node import placed
from gpu_node.facts.probe.file_systems import Places, are_shared
from gpu_node.inventories.escape import visible

_IDLE_SECONDS = 60


class Supply(TypedDict):
    """Lines of requirements with hashes, and whether pip may ask any server."""

    hashes: str
    insecure_index: bool


def supply(plan: Plan, requirements: Iterable[str]) -> Supply:
    """Return the inventory's settings for these requirements."""
    wanted = plan.wanted.supply
    if wanted is None:
        return {"hashes": "", "insecure_index": False}
    return {
        "hashes": wanted.lines(requirements),
        "insecure_index": wanted.insecure_index is True,
    }


def refuse_if_in_use(state: State, host: Host, environment: str) -> bool:
    """Refuse if a process uses a GPU on another node of the inventory that may share a folder.

    Nodes that are not in this run are asked as well, over a separate connection.
    """
    mine = _known(host, environment)
    others = [each for each in state.inventory if each is not host]
    reasons = Pool(PARALLEL).map(lambda other: _hindrance(state, other, environment, mine), others)
    hindrances = [reason for reason in reasons if reason]
    for each in hindrances:
        logger.error(f"{host.print_prefix}{environment}: {visible(each)}")
    return not hindrances


def _known(host: Host, environment: str) -> Places | None:
    """Return the file systems of an environment on a node of the run, if its baseline has them."""
    state = states(host.state).get(host.name)
    return placed(environment, state) if state else None


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
    places = readings.take(PLACES_SECTION, parse_environment_places)
    return (places or {}).get(environment)


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
