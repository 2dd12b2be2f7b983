"""SSH mesh: each node has a key, accepts the keys of the others, and knows their host keys.

A key is accepted only from the addresses of its node. pyinfra runs an operation on all nodes before
the next: all keys exist before one is authorised.
"""

from typing import Any

from pyinfra import host
from pyinfra.api import deploy

from gpu_node.deploy.engine.failures import apart
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.shared import is_writer, nodes_sharing
from gpu_node.deploy.ssh import operations as ssh
from gpu_node.drift.engine.subject import Logins, Path
from gpu_node.drift.ssh import rules, rules_mesh, rules_port
from gpu_node.drift.ssh.mesh import (
    comes_from,
    hosts_wanted,
    installers_line,
    known_wanted,
    state_of,
    with_one_user,
)
from gpu_node.drift.ssh.rules import AUTHORIZED
from gpu_node.drift.ssh.settings import PORTS, ports
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.file_systems import Places
from gpu_node.facts.ssh.mesh import HOSTS, KNOWN_HOSTS
from gpu_node.facts.ssh.state import Account

_IN_HOME = (rules.permissions, rules.key_missing, rules.not_authorised)


@deploy("SSH mesh")
def converge(plan: Plan) -> None:
    """Repair what the ssh rules found."""
    # The only node of a cluster authorises no other one.
    names = [peer.name for peer in plan.nodes.peers] if plan.nodes.others else []
    account = plan.state.ssh.account
    if account is not None and _changes_home(plan):
        folder = f"{account.home}/.ssh"
        if is_writer(plan, folder, _home, _changes_home):
            with apart(host, folder):
                _converge_home(plan, account)
    if plan.repairs(rules.unknown_host_key, rules.host_key_changed) or _is_outdated(
        plan, KNOWN_HOSTS
    ):
        wanted = known_wanted(plan.state, plan.nodes)
        with apart(host, KNOWN_HOSTS):
            ssh.lines(name=f"Write {KNOWN_HOSTS}", path=KNOWN_HOSTS, nodes=names, wanted=wanted)
    if plan.repairs(rules_port.port_unset):
        body = ports(plan.nodes.peers)
        with apart(host, PORTS):
            ssh.settings(name=f"Write {PORTS}", path=PORTS, body=body)
    if plan.repairs(rules_mesh.name_unresolved) or _is_outdated(plan, HOSTS):
        wanted = hosts_wanted(plan.state, plan.nodes)
        name, own = f"Write {HOSTS}", _loopback(plan)
        with apart(host, HOSTS):
            ssh.lines(name=name, path=HOSTS, nodes=names, wanted=wanted, installers=own)


def _is_outdated(plan: Plan, path: str) -> bool:
    return plan.repairs(rules_mesh.block_outdated, about=Path(path))


def _home(state: NodeState) -> Places | None:
    return state.ssh.account.places if state.ssh.account is not None else None


def _changes_home(plan: Plan) -> bool:
    return plan.repairs(*_IN_HOME) or _is_outdated(plan, AUTHORIZED)


def _converge_home(plan: Plan, account: Account) -> None:
    """Repair the files in the training user's home."""
    user, path = account.user, f"{account.home}/.ssh/authorized_keys"
    if plan.repairs(rules.permissions):
        ssh.permissions(name="Close the SSH files to others", user=user)
    if plan.repairs(rules.key_missing):
        ssh.key(name="Make a key", user=user, comment=f"gpu-node:{plan.nodes.name}")
    if plan.repairs(rules.not_authorised) or _is_outdated(plan, AUTHORIZED):
        alike = with_one_user(plan.state, plan.nodes).peers
        ssh.authorized_keys(
            name="Authorize the nodes' keys",
            path=path,
            user=user,
            itself=nodes_sharing(plan, _home),
            # The only node of a cluster authorises no other one.
            nodes=[peer.name for peer in alike] if plan.nodes.others else [],
            asked=_asked(plan),
        )


def _loopback(plan: Plan) -> str:
    """Return the node's name if the line of Debian's installer makes it loopback."""
    own, hosts = plan.nodes.name, plan.state.ssh.hosts
    wrong = plan.subjects(Logins, rules_mesh.name_unresolved)
    if hosts is None or not any(own in each.names for each in wrong):
        return ""
    return own if installers_line(own, hosts.lines) is not None else ""


def _asked(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return key and addresses of each node that may log in, was read in this run and has some."""
    alike = with_one_user(plan.state, plan.nodes)
    states = {peer: state_of(peer.name, plan.state, plan.nodes) for peer in alike.peers}
    return {
        peer.name: {"public": state.account.public, "addresses": addresses}
        for peer, state in states.items()
        if state is not None and state.account is not None and not state.account.unusable
        if (addresses := comes_from(peer, state))
    }
