"""A forecast of --dry: what the rules find on a new server, and what joining would change."""

from __future__ import annotations

from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.nccl import rules_environments, rules_system
from gpu_node.drift.nccl.environment_copy import can_install_rsync, will_have_rsync
from gpu_node.drift.nccl.libnccl import target
from gpu_node.facts.ask.session import ProbeError, asked_again, whole
from gpu_node.facts.node import NodeProbe, NodeState
from gpu_node.facts.probe.bounds import not_understood
from gpu_node.facts.probe.frame import READER, by_stdin
from gpu_node.facts.probe.protocol import time_limit
from gpu_node.facts.probe.request import request_of
from gpu_node.inventories.cluster import Cluster
from gpu_node.inventories.escape import visible
from gpu_node.inventories.schema import NcclWanted
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.trust.session import Session

# What is between nodes is judged when it is one of them.
_BETWEEN = ("ssh", "workspace")
REPAIRED, MANUAL = "would be repaired", "needs manual action"
_MISSING = rules_environments.environment_missing.id
# Their version is that of torch, in an environment that is copied before they are installed.
_PACKAGES = tuple(
    rule.id
    for rule in (
        rules_system.duplicate_packages,
        rules_system.package_missing,
        rules_system.package_damaged,
    )
)


def forecast(session: Session, cluster: Cluster, name: str) -> list[str]:
    """Return what is wrong on a server by the cluster file with its entry, and who repairs it.

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


def foreseen(state: NodeState, cluster: Cluster, name: str) -> list[str]:
    """Return a line for each finding, and one for what the others would get."""
    wanted = cluster.hosts[name].wanted
    nccl = wanted.nccl
    source = nccl.copy_from if nccl and nccl.copy_from != name else None
    lines = []
    for each in check(state, wanted, Nodes(name)):
        if each.rule == _MISSING and source is not None:
            lines.append(_line(each, *_copied(state, name, source)))
        elif each.rule in _PACKAGES and source is not None and _follows(state, nccl):
            lines.append(_line(each, "decided when its environment is there", "by its torch"))
        elif each.area not in _BETWEEN:
            lines.append(_line(each, REPAIRED if each.fixable else MANUAL, each.fix))
    return [*lines, *_mesh(cluster, name)]


def _copied(state: NodeState, name: str, source: str) -> tuple[str, str]:
    """Return whether an environment comes from another node, which is not asked for it here."""
    if will_have_rsync(state):
        return REPAIRED, f"copied from {source} to the same path"
    return MANUAL, f"install rsync on {name}: it copies the environment from {source}"


def _follows(state: NodeState, wanted: NcclWanted | None) -> bool:
    """Whether packages are installed once a copied environment has their version."""
    return (
        wanted is not None
        and wanted.packages is True
        and bool(state.nccl.absent)
        and target(state.nccl, wanted) is None
        and will_have_rsync(state)
        and can_install_rsync(state)
    )


def _line(finding: Finding, whose: str, fix: str) -> str:
    what = f"{finding.rule}: {finding.subject}: {finding.found}, wanted {finding.wanted}"
    return visible(f"{what}; {whose}: {fix}")


def _mesh(cluster: Cluster, name: str) -> list[str]:
    """Return what would be written on the other nodes; nothing where they are in no mesh."""
    meshed = [host for host in cluster.hosts if cluster.data_of(host).get("ssh_mesh")]
    others = [each for each in meshed if each != name]
    if name not in meshed or not others:
        return []
    return [
        f"mesh: on {', '.join(others)}: {name} would be written to authorized_keys and "
        "known_hosts, and to /etc/hosts where its name is not known"
    ]
