"""Removal: a node leaves the inventory and the other nodes; nothing is changed on it."""

from collections.abc import Callable, Iterator
from pathlib import Path

from gpu_node.deploy.console import UserConsole
from gpu_node.deploy.engine.pyinfra_process import WHOLE
from gpu_node.drift.report.model import report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.ssh.rules_mesh import block_outdated
from gpu_node.inventories.cluster import Cluster
from gpu_node.inventories.connection.known_hosts import SSH_PORT, keys_of, lookups, read, without
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.errors import InventoryError, listed, shown, worded
from gpu_node.inventories.interrupt import deferred
from gpu_node.inventories.schema import load, sources_named
from gpu_node.inventories.yaml import edit as editing
from gpu_node.inventories.yaml.edit import EditError
from gpu_node.onboarding import journal
from gpu_node.onboarding.errors import FileError, Stopped
from gpu_node.onboarding.inventory_files import Site, known_hosts
from gpu_node.onboarding.journal import Journal
from gpu_node.onboarding.run_pyinfra import Unfinished, pyinfra
from gpu_node.onboarding.trust import host_keys as contact

# The areas that know the other nodes, each with the key of a node's data.
_KNOWING = {"ssh": "ssh_mesh", "ports": "firewall_trust_nodes"}
# What a node has in a report that may still have lines of the removed one.
_KNOWS = {block_outdated.id, f"{block_outdated.area}.unreadable"}
# Asks all nodes of an inventory.
Ask = Callable[[str], dict[str, Seen]]


def remove(site: Site, name: str, console: UserConsole, ask: Ask, dry: bool = False) -> None:
    """Remove a node; an interrupted removal is finished, an unfinished onboarding cancelled.

    Where the run at its end fails, `ask` shows whether that is about the removed node. Raises
    Stopped; FileError where the reason is in the cluster file.
    """
    cluster = site.cluster()
    gone = journal.read(site, name)
    if name in cluster.hosts:
        gone = _out_of_inventory(site, cluster, name, console, dry)
    elif gone is not None and not gone.removed:
        _give_up(cluster, gone, site, console, dry)
        return
    elif gone is None:
        # Suggests no similar name: a user could remove a working node by mistake.
        allowed = listed(cluster.hosts) or "nothing, as it has no host"
        why = "no such host; if it was removed before, nothing is left to do"
        raise FileError(f"{site.file}: hosts: {worded(shown(name), why, allowed)}")
    if dry:
        return
    _forget_host_key(site, cluster, gone, console)
    _out_of_nodes(site, gone, console, ask)
    journal.forget(site, name)
    console.say(f"{name} is removed; nothing was changed on it")


def _out_of_inventory(
    site: Site, cluster: Cluster, name: str, console: UserConsole, dry: bool
) -> Journal:
    text = site.text()
    try:
        new = editing.without_host(text, name)
    except EditError as error:
        raise FileError(error.at(site.file)) from None
    try:
        load(site.file, new)
    except InventoryError as error:
        if named := sources_named(site.file, name):
            why, then = "the node that is to be removed", "change or remove that line first"
            problem = worded(shown(name), why, "another node", then)
            raise FileError("\n".join(f"{each}: {problem}" for each in named)) from None
        raise FileError(str(error)) from None
    console.print(editing.diff(text, new, str(site.file)))
    data = cluster.data_of(name)
    group = cluster.hosts[name].group
    if group is not None and [host.group for host in cluster.hosts.values()].count(group) == 1:
        console.say(f"group {group} has no other host; it stays in {site.file}")
    gone = Journal(
        name=name,
        address=str(data["ssh_hostname"]),
        user=str(data.get("ssh_user") or ""),
        port=int(data.get("ssh_port") or SSH_PORT),
        group=group,
        removed=True,
    )
    _show_host_key(site, cluster, gone, console)
    if dry:
        return gone
    others = ", ".join(host for host in cluster.hosts if host != name)
    SUDO.be_typed()
    question = f"Write this to {site.file}, and have {others} forget {name}?"
    console.confirm(question, "the removal")
    with deferred():
        journal.write(site, gone)
        editing.write(site.file, text, new)
    return gone


def _show_host_key(site: Site, cluster: Cluster, gone: Journal, console: UserConsole) -> None:
    """Show which lines are removed from this machine's known_hosts; some may be older."""
    file = _known_hosts(cluster, gone)
    old, going = read(file), _forgotten(site, cluster, gone)
    console.print(editing.diff(old, without(old, going), str(file)))
    own = lookups(gone.name, gone.address, gone.port)
    if kept := [each for each in own if each not in going and keys_of(old, each)]:
        console.say(
            f"the host key of {', '.join(kept)} stays in {file}: it was pinned before, or another "
            "server needs it"
        )


def _give_up(cluster: Cluster, begun: Journal, site: Site, console: UserConsole, dry: bool) -> None:
    """Cancel the unfinished onboarding of a server that the inventory does not have."""
    _show_host_key(site, cluster, begun, console)
    if dry:
        return
    question = f"Give up the onboarding of {begun.name} at {begun.address}?"
    console.confirm(question, "that it is given up")
    _forget_host_key(site, cluster, begun, console)
    journal.forget(site, begun.name)
    console.say(
        f"the onboarding of {begun.name} is given up; this machine's key may be in its "
        "authorized_keys"
    )


def _known_hosts(cluster: Cluster, gone: Journal) -> Path:
    """Return where its host key is pinned, also after its removal from the inventory."""
    entered = gone.name in cluster.hosts
    return known_hosts(cluster.data_of(gone.name) if entered else cluster.level(gone.group))


def _forgotten(site: Site, cluster: Cluster, gone: Journal) -> list[str]:
    """Return its names to remove from known_hosts, without those of other servers.

    For a node these are all its names; for an unfinished onboarding those that it pinned.
    """
    own = lookups(gone.name, gone.address, gone.port) if gone.removed else gone.pinned
    used = {
        lookup for name, way in _others(site, cluster, gone.name) for lookup in lookups(name, *way)
    }
    return [each for each in own if each not in used]


def _others(site: Site, cluster: Cluster, name: str) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield name, address and port of the other nodes and unfinished onboardings."""
    for host in cluster.hosts:
        if host != name:
            data = cluster.data_of(host)
            yield host, (str(data["ssh_hostname"]), int(data.get("ssh_port") or SSH_PORT))
    for begun in journal.unfinished(site):
        if begun.name != name and not begun.removed:
            yield begun.name, (begun.address, begun.port)


def _forget_host_key(site: Site, cluster: Cluster, gone: Journal, console: UserConsole) -> None:
    file = _known_hosts(cluster, gone)
    if contact.unpin(file, *_forgotten(site, cluster, gone)):
        console.say(f"its host key is removed from {file}")


def _out_of_nodes(site: Site, gone: Journal, console: UserConsole, ask: Ask) -> None:
    """Have the other nodes forget the removed node, in the areas that know it."""
    data = [site.cluster().data_of(name) for name in site.cluster().hosts]
    areas = [area for area, key in _KNOWING.items() if any(each.get(key) for each in data)]
    if not areas:
        return
    try:
        pyinfra(site, WHOLE, areas=",".join(areas))
    except Unfinished as error:
        if areas == ["ssh"] and not _may_know(str(site.inventory), ask):
            console.say(f"{error}; no node has lines of {gone.name} any more")
            return
        who = ", ".join(error.nodes) or "some node"
        raise Stopped(
            f"{error}; {gone.name} is removed from the inventory, and {who} may still know "
            "it; next: repair what the run above leaves there, then run this again"
        ) from None


def _may_know(inventory: str, ask: Ask) -> bool:
    """Whether a node has lines of one that the inventory no longer names, or could not be read."""
    hosts = report_of(inventory, ask(inventory)).hosts.values()
    return any(
        host.error or _KNOWS & {each.rule for each in (*host.findings, *host.off)} for host in hosts
    )
