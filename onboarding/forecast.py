"""A forecast: what the rules find on a server that is no member yet, and what its joining does."""

from __future__ import annotations

from pyinfra.api.exceptions import FactProcessError

from drift.among import Among
from drift.check import check
from drift.copied import can_install_rsync, will_have_rsync
from drift.finding import Finding
from drift.libnccl import target
from drift.report.visible import visible
from facts.named import named_by
from facts.node import NodeProbe, NodeState
from facts.probe import MARK, time_limit
from facts.session import SILENT
from inventories.cluster import Cluster
from inventories.schema import NcclWanted
from onboarding.session import Session
from onboarding.stopped import Stopped

# What is between nodes is judged when it is one of them.
_BETWEEN = ("ssh", "workspace")
REPAIRED, BY_HAND = "would be repaired", "by hand"
_MISSING = "nccl.environment-missing"
# Their version is that of torch, in an environment that is copied before they are installed.
_PACKAGES = ("nccl.duplicate-packages", "nccl.package-missing", "nccl.package-damaged")


def forecast(session: Session, cluster: Cluster, name: str) -> list[str]:
    """Return what is wrong on a server by the cluster file that has its entry, and whose it is.

    It is asked as its own user, as every report does. Raises Stopped where that cannot be.
    """
    fact = NodeProbe()
    script = fact.asking(named_by(cluster.data_of(name)))
    lines = session.run(script, time_limit(fact.asked)).out
    if not any(line.startswith(MARK) for line in lines):
        raise Stopped(f"the probe could not run: {SILENT}")
    try:
        found = NodeState.model_validate(fact.process(lines))
    except FactProcessError as error:
        raise Stopped(str(error)) from None
    return foreseen(found, cluster, name)


def foreseen(found: NodeState, cluster: Cluster, name: str) -> list[str]:
    """Return a line for each finding, and one for what the others would get."""
    wanted = cluster.hosts[name].wanted
    nccl = wanted.nccl
    source = nccl.copy_from if nccl and nccl.copy_from != name else None
    lines = []
    for each in check(found, wanted, Among(name)):
        if each.rule == _MISSING and source is not None:
            lines.append(_told(each, *_copied(found, name, source)))
        elif each.rule in _PACKAGES and source is not None and _follows(found, nccl):
            lines.append(_told(each, "decided when its environment is there", "by its torch"))
        elif each.step not in _BETWEEN:
            lines.append(_told(each, REPAIRED if each.fixable else BY_HAND, each.fix))
    return [*lines, *_mesh(cluster, name)]


def _copied(found: NodeState, name: str, source: str) -> tuple[str, str]:
    """Return whether an environment comes from another node, which is not asked for it here."""
    if will_have_rsync(found):
        return REPAIRED, f"copied from {source} to the same path"
    return BY_HAND, f"install rsync on {name}: it copies the environment from {source}"


def _follows(found: NodeState, wanted: NcclWanted | None) -> bool:
    """Whether packages are installed once a copied environment tells their version."""
    return (
        wanted is not None
        and wanted.packages is True
        and bool(found.nccl.absent)
        and target(found.nccl, wanted) is None
        and will_have_rsync(found)
        and can_install_rsync(found)
    )


def _told(finding: Finding, whose: str, fix: str) -> str:
    what = f"{finding.rule}: {finding.subject}: {finding.found}, wanted {finding.wanted}"
    return visible(f"{what}; {whose}: {fix}")


def _mesh(cluster: Cluster, name: str) -> list[str]:
    """Return what would be written on the other nodes; nothing where they are in no mesh."""
    meshed = [each for each in cluster.hosts if cluster.data_of(each).get("ssh_mesh")]
    others = [each for each in meshed if each != name]
    if name not in meshed or not others:
        return []
    return [
        f"mesh: on {', '.join(others)}: {name} would be written to authorized_keys and "
        "known_hosts, and to /etc/hosts where its name is not known"
    ]
