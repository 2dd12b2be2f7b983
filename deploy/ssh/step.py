"""SSH mesh: each node has a key, lets the others in from where they are, and knows their hosts.

pyinfra takes an operation to all nodes before the next: every key is there before any is let in.
"""

from __future__ import annotations

from typing import Any

from pyinfra.api import deploy

from deploy.operations import ssh
from deploy.plan import Plan
from deploy.shared import is_writer, nodes_sharing
from drift.mesh import comes_from, hosts_wanted, installers_line, known_wanted, state_of
from drift.rules.ssh import AUTHORIZED
from drift.ssh_settings import PORTS, ports
from facts.file_systems import Places
from facts.mesh import HOSTS, KNOWN_HOSTS
from facts.node import NodeState
from facts.ssh import Account

_IN_HOME = ("ssh.unconfirmed", "ssh.permissions", "ssh.key-missing", "ssh.not-authorised")


@deploy("SSH mesh")
def converge(plan: Plan) -> None:
    """Repair what the ssh rules found."""
    account = plan.found.ssh.account
    if account is None:
        return
    among = plan.among
    # A node that is the last one has nobody to let in.
    nodes = [peer.name for peer in among.nodes] if among.others else []
    outdated = plan.subjects("ssh.block-outdated", severity="warning")
    if _changes_home(plan) and is_writer(plan, f"{account.home}/.ssh", _home, _changes_home):
        _converge_home(plan, account, nodes)
    if plan.repairs("ssh.unknown-host-key", "ssh.host-key-changed") or KNOWN_HOSTS in outdated:
        told = known_wanted(plan.found, among)
        ssh.lines(name=f"Write {KNOWN_HOSTS}", path=KNOWN_HOSTS, nodes=nodes, told=told)
    if plan.repairs("ssh.port-unset"):
        body = ports(among.nodes)
        ssh.settings(name=f"Write {PORTS}", path=PORTS, body=body)
    if plan.repairs("ssh.name-unresolved") or HOSTS in outdated:
        told = hosts_wanted(plan.found, among)
        name, own = f"Write {HOSTS}", _loopback(plan)
        ssh.lines(name=name, path=HOSTS, nodes=nodes, told=told, installers=own)


def _home(found: NodeState) -> Places | None:
    return found.ssh.account.places if found.ssh.account is not None else None


def _changes_home(plan: Plan) -> bool:
    outdated = plan.subjects("ssh.block-outdated", severity="warning")
    return plan.repairs(*_IN_HOME) or AUTHORIZED in outdated


def _converge_home(plan: Plan, account: Account, nodes: list[str]) -> None:
    """Repair what lies in the home of the user who trains."""
    user, path = account.user, f"{account.home}/.ssh/authorized_keys"
    if plan.repairs("ssh.unconfirmed"):
        ssh.settle(name="Confirm authorized_keys of a run cut off", path=path, user=user)
    if plan.repairs("ssh.permissions"):
        ssh.permissions(name="Close the SSH files to others", user=user)
    if plan.repairs("ssh.key-missing"):
        ssh.key(name="Make a key", user=user, comment=f"gpu-node:{plan.among.name}")
    outdated = plan.subjects("ssh.block-outdated", severity="warning")
    if plan.repairs("ssh.not-authorised") or AUTHORIZED in outdated:
        ssh.authorized_keys(
            name="Let the nodes in",
            path=path,
            user=user,
            itself=nodes_sharing(plan, _home),
            nodes=nodes,
            asked=_asked(plan),
        )


def _loopback(plan: Plan) -> str:
    """Return the node's name where it means loopback by the line of Debian's installer."""
    own, hosts = plan.among.name, plan.found.ssh.hosts
    wrong = own in plan.subjects("ssh.name-unresolved") and hosts is not None
    return own if wrong and installers_line(own, hosts.lines if hosts else ()) else ""


def _asked(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return key and addresses of each node that was asked in this run."""
    states = {peer: state_of(peer.name, plan.found, plan.among) for peer in plan.among.nodes}
    return {
        peer.name: {"public": state.account.public, "addresses": comes_from(peer, state)}
        for peer, state in states.items()
        if state is not None and state.account is not None and not state.account.unusable
    }
