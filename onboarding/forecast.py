"""A forecast: what the rules find on a server that is no member yet, once it has its entry."""

from __future__ import annotations

from pyinfra.api.exceptions import FactProcessError

from drift.among import Among
from drift.check import check
from drift.finding import Finding
from facts.named import named_by
from facts.node import NodeProbe, NodeState
from facts.probe import MARK, time_limit
from facts.session import SILENT
from inventories.cluster import Cluster
from onboarding.session import Session
from onboarding.stopped import Stopped

# What is between nodes is judged when it is one of them.
_BETWEEN = ("ssh", "workspace")


def forecast(session: Session, cluster: Cluster, name: str) -> list[Finding]:
    """Return what is wrong on a server by the cluster file that has its entry.

    It is asked as its own user, as every report does. Raises Stopped where that cannot be.
    """
    host = cluster.hosts[name]
    fact = NodeProbe()
    script = fact.asking(named_by(cluster.data_of(name)))
    lines = session.run(script, time_limit(fact.asked)).out
    if not any(line.startswith(MARK) for line in lines):
        raise Stopped(f"the probe could not run: {SILENT}")
    try:
        found = NodeState.model_validate(fact.process(lines))
    except FactProcessError as error:
        raise Stopped(str(error)) from None
    return [each for each in check(found, host.wanted, Among(name)) if each.step not in _BETWEEN]
