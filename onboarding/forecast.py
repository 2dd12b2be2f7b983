"""A forecast of --dry: what the rules find on a new server, and what joining would change."""

from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.judgement import Judgement
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.nccl import rules_environments
from gpu_node.drift.nccl.environment_copy import will_have_rsync
from gpu_node.drift.report.model import Report, report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.ask.session import ProbeError, asked_again, whole
from gpu_node.facts.node import NodeProbe, NodeState
from gpu_node.facts.probe.bounds import not_understood
from gpu_node.facts.probe.frame import READER, by_stdin
from gpu_node.facts.probe.protocol import time_limit
from gpu_node.facts.probe.request import request_of
from gpu_node.inventories.cluster import Cluster
from gpu_node.inventories.escape import visible
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.trust.session import Session

# What is between nodes is judged when it is one of them.
_BETWEEN = ("ssh", "workspace")
_MISSING = rules_environments.environment_missing.id


def forecast(session: Session, cluster: Cluster, name: str) -> tuple[Report, list[str]]:
    """Return the report of a server by the cluster file with its entry, and what it would get.

    It is asked as its own user, as every report does. Raises Stopped where that cannot be.
    """
    fact = NodeProbe()
    script = fact.script_for(request_of(cluster.data_of(name)))

    def once() -> list[str]:
        done = session.run(READER, time_limit(fact.asked), "\n".join(by_stdin(script)))
        return whole(done.code == 0, done.out, done.err.split("\n"))

    try:
        lines = asked_again(once)
    except ProbeError as error:
        raise Stopped(visible(str(error))) from None
    try:
        found = fact.state_in(lines)
    except Exception as error:  # of whatever class: an answer of the server's made it
        raise Stopped(not_understood(error)) from None
    return foreseen(found, cluster, name)


def foreseen(state: NodeState, cluster: Cluster, name: str) -> tuple[Report, list[str]]:
    """Return the report of a server alone, and a line for what it and the others would get."""
    wanted = cluster.hosts[name].wanted
    source = wanted.nccl.copy_from if wanted.nccl and wanted.nccl.copy_from != name else None
    # Here its source is not asked.
    aside = _MISSING if source else ""
    found = [
        each
        for each in check(state, wanted, Nodes(name))
        if each.area not in _BETWEEN and each.rule != aside
    ]
    report = report_of("", {name: Seen(wanted, state)}, Judgement({name: found}))
    return report, [*_copied(state, name, source), *_mesh(cluster, name)]


def _copied(state: NodeState, name: str, source: str | None) -> list[str]:
    """Return which environments would come from another node."""
    prefixes = ", ".join(state.nccl.absent)
    if source is None or not prefixes:
        return []
    if will_have_rsync(state):
        return [f"environments: {prefixes} would be copied from {source} to the same path"]
    return [f"environments: install rsync on {name}: it copies {prefixes} from {source}"]


def _mesh(cluster: Cluster, name: str) -> list[str]:
    """Return what would be written on the other nodes; nothing where they are in no mesh."""
    meshed = [host for host in cluster.hosts if cluster.data_of(host).get("ssh_mesh")]
    others = [each for each in meshed if each != name]
    if name not in meshed or not others:
        return []
    users = {each["name"]: each.get("user", "") for each in cluster.nodes()}
    apart = [f"{each} ({users[each]})" for each in others if users[each] != users[name]]
    refused = f"; not to authorized_keys on {', '.join(apart)}: the training user of {name} is "
    return [
        f"mesh: on {', '.join(others)}: {name} would be written to authorized_keys and "
        "known_hosts, and to /etc/hosts where its name is not known"
        + (f"{refused}{users[name]}" if apart else "")
    ]
