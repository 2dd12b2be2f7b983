"""Removal: a node goes out of the inventory and of what the others know; it stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from inventories import editing
from inventories.cluster import Cluster
from inventories.pinned import SSH_PORT, keys_of, lookups, read, without
from inventories.problems import InventoryError
from inventories.schema import load, sources_named
from onboarding import contact, journal
from onboarding.journal import Journal
from onboarding.running import WHOLE, Unfinished, pyinfra
from onboarding.screen import Screen
from onboarding.signals import undisturbed
from onboarding.site import Site, known_hosts
from onboarding.stopped import Stopped

REMOVED = "removed"


def remove(site: Site, name: str, screen: Screen, dry: bool = False) -> None:
    """Take a node out; one that was taken out half is taken out whole.

    Raises Stopped, EditError or ContactError.
    """
    cluster = site.cluster()
    gone = journal.read(site, name)
    if name in cluster.hosts:
        gone = _out_of_inventory(site, cluster, name, screen, dry)
    elif gone is not None and REMOVED not in gone.done:
        _give_up(cluster, gone, site, screen, dry)
        return
    elif gone is None:
        # No name that is like it: what is removed by mistake is a node that lives.
        raise Stopped(
            f"{site.file} has no host {name}; it has {', '.join(cluster.hosts)}. If it was "
            "removed before, nothing is left to do"
        )
    if dry:
        return
    _forget_host_key(site, cluster, gone, screen)
    _out_of_nodes(site, gone, screen)
    journal.forget(site, name)
    screen.say(f"{name} is out; nothing was changed on it")


def _out_of_inventory(
    site: Site, cluster: Cluster, name: str, screen: Screen, dry: bool
) -> Journal:
    text = site.text()
    new = editing.without_host(text, name)
    try:
        load(site.file, new)
    except InventoryError as error:
        if named := sources_named(site.file, name):
            way_on = "which is to be removed: change that line or take it out first"
            raise Stopped("\n".join(f"{each} names {name}, {way_on}" for each in named)) from None
        raise Stopped(f"the inventory cannot be without it:\n{error}") from None
    screen.print(editing.diff(text, new, str(site.file)))
    data = cluster.data_of(name)
    group = cluster.hosts[name].group
    if [each.group for each in cluster.hosts.values()].count(group) == 1:
        screen.say(f"group {group} has no host without it; it stays in {site.file}")
    gone = Journal(
        name=name,
        address=str(data["ssh_hostname"]),
        user=str(data.get("ssh_user") or ""),
        port=int(data.get("ssh_port") or SSH_PORT),
        group=group,
        done=(REMOVED,),
    )
    _show_host_key(site, cluster, gone, screen)
    if dry:
        return gone
    others = ", ".join(each for each in cluster.hosts if each != name)
    question = f"Write this to {site.file}, and have {others} forget {name}?"
    screen.confirm(question, "the removal")
    with undisturbed():
        journal.write(site, gone)
        editing.write(site.file, text, new)
    return gone


def _show_host_key(site: Site, cluster: Cluster, gone: Journal, screen: Screen) -> None:
    """Show which lines go out of this machine's known_hosts, some of which may be older."""
    file = _known_hosts(cluster, gone)
    old, going = read(file), _forgotten(site, cluster, gone)
    screen.print(editing.diff(old, without(old, going), str(file)))
    own = lookups(gone.name, gone.address, gone.port)
    if kept := [each for each in own if each not in going and keys_of(old, each)]:
        screen.say(
            f"the host key of {', '.join(kept)} stays in {file}: it was pinned before, or another "
            "server needs it"
        )


def _give_up(cluster: Cluster, begun: Journal, site: Site, screen: Screen, dry: bool) -> None:
    """Forget a server whose onboarding was begun, and that the inventory never had."""
    _show_host_key(site, cluster, begun, screen)
    if dry:
        return
    question = f"Give up the onboarding of {begun.name} at {begun.address}?"
    screen.confirm(question, "that it is given up")
    _forget_host_key(site, cluster, begun, screen)
    journal.forget(site, begun.name)
    screen.say(
        f"the onboarding of {begun.name} is given up; this machine's key may be in its "
        "authorized_keys"
    )


def _known_hosts(cluster: Cluster, gone: Journal) -> Path:
    """Return where its host key is pinned, also once the inventory has it no more."""
    entered = gone.name in cluster.hosts
    return known_hosts(cluster.data_of(gone.name) if entered else cluster.level(gone.group))


def _forgotten(site: Site, cluster: Cluster, gone: Journal) -> list[str]:
    """Return by what it is forgotten in known_hosts: by nothing that another server goes by.

    A node is by all that it goes by, one that was only begun by what its onboarding pinned.
    """
    is_node = REMOVED in gone.done
    own = lookups(gone.name, gone.address, gone.port) if is_node else gone.pinned
    used = {each for name, way in _others(site, cluster, gone.name) for each in lookups(name, *way)}
    return [each for each in own if each not in used]


def _others(site: Site, cluster: Cluster, name: str) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield the names of the other nodes and of those that were begun, with address and port."""
    for host in cluster.hosts:
        if host != name:
            data = cluster.data_of(host)
            yield host, (str(data["ssh_hostname"]), int(data.get("ssh_port") or SSH_PORT))
    for begun in journal.unfinished(site):
        if begun.name != name and REMOVED not in begun.done:
            yield begun.name, (begun.address, begun.port)


def _forget_host_key(site: Site, cluster: Cluster, gone: Journal, screen: Screen) -> None:
    file = _known_hosts(cluster, gone)
    if contact.unpin(file, *_forgotten(site, cluster, gone)):
        screen.say(f"its host key is out of {file}")


def _out_of_nodes(site: Site, gone: Journal, screen: Screen) -> None:
    """Write the others' lines anew; what they had of it goes."""
    data = [site.cluster().data_of(name) for name in site.cluster().hosts]
    if not any(each.get("ssh_mesh") for each in data):
        return
    try:
        pyinfra(site, WHOLE, areas="ssh")
    except Unfinished as error:
        who = ", ".join(error.nodes) or "some node"
        raise Stopped(
            f"{error}; {gone.name} is out of the inventory, and {who} may still know it: run this "
            "again when all nodes are there"
        ) from None
