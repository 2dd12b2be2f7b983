"""Asks the nodes of an inventory through an engine of the site: ClusterShell or Slurm."""

import secrets
from collections.abc import Iterable, Mapping

from pyinfra.api import Host
from pyinfra.connectors.ssh import SSHConnector

from gpu_node.facts.ask import waiting
from gpu_node.facts.ask.gather import Answer, chosen
from gpu_node.facts.ask.via import SLURM, clustershell, slurm
from gpu_node.facts.ask.via.clustershell import NoClusterShell
from gpu_node.facts.ask.via.question import Question
from gpu_node.facts.ask.via.slurm import NoSlurm

__all__ = ["NoClusterShell", "NoSlurm", "NotANode", "gather_via"]


class NotANode(ValueError):
    """A host of an inventory that is not reached by SSH; str() is its name."""


def gather_via(
    via: str,
    inventory_path: str,
    limits: Iterable[str],
    deep: bool = False,
    data: Mapping[str, object] | None = None,
) -> dict[str, Answer]:
    """Probe the nodes of an inventory file through an engine, as `gather` does over SSH.

    Raises what `gather` does; NotANode for a host such as @local, NoClusterShell and NoSlurm where
    this machine has no such engine.
    """
    with chosen(inventory_path, limits, data or {}) as (_, hosts):
        questions = [_question(host, deep, via == SLURM) for host in hosts]
    last = waiting.DEEP_LAST_SECONDS if deep else waiting.LAST_SECONDS
    engine = slurm.gather if via == SLURM else clustershell.gather
    return engine(questions, last)


def _question(host: Host, deep: bool, in_job: bool) -> Question:
    if not issubclass(host.connector_cls, SSHConnector):
        raise NotANode(host.name)
    # Not one number for all: a node could hand its own to another one.
    number = secrets.token_hex(8)
    return Question(host.name, host.data.dict(), number, deep, in_job)
