"""What ssh and sshd go by beside the usual files, as far as it decides about a login."""

from collections.abc import Iterable

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.facts.probe.peers import SSH_PORT, Peer
from gpu_node.facts.probe.redaction import redacted
from gpu_node.facts.ssh.mesh import KNOWN_HOSTS
from gpu_node.facts.ssh.settings import (
    DROP_IN_FOLDER,
    GLOBAL_KNOWN_HOSTS,
    OFFERS,
    PROXIES,
    SSH_CONFIG,
    Client,
    lines_about,
)
from gpu_node.facts.ssh.state import SshState

# Ours, where ssh reads the ports of the nodes.
PORTS = f"{DROP_IN_FOLDER}/10-gpu-node.conf"

# The key that the mesh is made of, in a home.
_KEY = "/.ssh/id_ed25519"

_SHOWN = {
    "proxycommand": "ProxyCommand",
    "proxyjump": "ProxyJump",
    "hostname": "HostName",
    "user": "User",
    "port": "Port",
    "identityfile": "IdentityFile",
    "pubkeyauthentication": "PubkeyAuthentication",
    "preferredauthentications": "PreferredAuthentications",
    GLOBAL_KNOWN_HOSTS: "GlobalKnownHostsFile",
}


def elsewhere(ssh: SshState, node: str) -> tuple[str, ...] | None:
    """Return the files in which sshd looks for the key of a node, where ~/.ssh has none of them.

    It is None where sshd reads ~/.ssh/authorized_keys, or could not be asked.
    """
    if ssh.server is None or ssh.account is None or node not in ssh.server.reads:
        return None
    reads = ssh.server.reads[node]
    return None if f"{ssh.account.home}/.ssh/authorized_keys" in reads else reads


def refuses_keys(ssh: SshState, node: str) -> str:
    """Return the setting by which sshd refuses a node's key; empty where there is none."""
    return ssh.server.refuses.get(node, "") if ssh.server is not None else ""


def reads_home(ssh: SshState) -> bool:
    """Whether sshd reads ~/.ssh/authorized_keys for any node, which it does unless it is set."""
    asked = ssh.server.reads if ssh.server is not None else {}
    return not asked or any(elsewhere(ssh, node) is None for node in asked)


def has_key(ssh: SshState, files: Iterable[str], public: str) -> bool | None:
    """Whether one of sshd's files elsewhere has a key; None where that is not known."""
    keys, files = (ssh.server.keys if ssh.server is not None else {}), list(files)
    if any(public in keys.get(file, ()) for file in files):
        return True
    return False if all(file in keys for file in files) else None


def worked(ssh: SshState) -> frozenset[str]:
    """Return the nodes to which each login that was tried from here worked, by whatever key."""
    tried = ssh.logins or ()
    return frozenset(each.node for each in tried) - {each.node for each in tried if each.code}


def lets_in_already(there: SshState, nodes: Nodes) -> bool:
    """Whether a node has just logged in to this one: by address, or in each way that was tried."""
    tried = [login for login in there.logins or () if login.node == nodes.name]
    # A name can mean another machine.
    by_address = any(each.how == "address" and not each.code for each in tried)
    return by_address or (bool(tried) and not any(each.code for each in tried))


def is_reached(nodes: Nodes) -> bool:
    """Whether each node that tried to log in to this one has done so."""
    tried = [
        there.ssh
        for there in nodes.states.values()
        if any(login.node == nodes.name for login in there.ssh.logins or ())
    ]
    return bool(tried) and all(lets_in_already(there, nodes) for there in tried)


def client(ssh: SshState, peer: Peer) -> Client | None:
    """Return what ssh does for a node; None where it could not be asked."""
    settings = ssh.client
    if settings is None or peer.name in settings.unknown:
        return None
    return settings.nodes.get(peer.name, settings.others)


def known_hosts_elsewhere(ssh: SshState, peer: Peer) -> str:
    """Say which files ssh reads in the place of ours for a node; empty where it reads ours."""
    parsed = client(ssh, peer)
    if parsed is None or not parsed.known_hosts or KNOWN_HOSTS in parsed.known_hosts:
        return ""
    where = set_by(ssh, (GLOBAL_KNOWN_HOSTS,)) or "GlobalKnownHostsFile"
    return f"{', '.join(parsed.known_hosts)} ({where})"


def detour(ssh: SshState, peer: Peer) -> str:
    """Say which setting of this node's ssh keeps a login from a node; empty where none does."""
    parsed = client(ssh, peer)
    if parsed is None:
        return ""
    straight = "ssh does not connect directly"
    if parsed.proxy:
        return f"{set_by(ssh, PROXIES) or f'a proxy, {redacted(parsed.proxy)}'}: {straight}"
    if parsed.hostname not in ("", peer.name, peer.address):
        return f"{set_by(ssh, ('hostname',)) or f'HostName {parsed.hostname}'}: {straight}"
    if not parsed.offers_keys:
        return f"{set_by(ssh, OFFERS[1:]) or 'its settings'}: ssh offers no key"
    if parsed.identities and not any(identity.endswith(_KEY) for identity in parsed.identities):
        offered = ", ".join(parsed.identities)
        return f"{set_by(ssh, OFFERS[:1]) or 'IdentityFile'}: ssh offers {offered} and not ~{_KEY}"
    return ""


def is_included(ssh: SshState) -> bool:
    """Whether ssh reads the folder with other packages' settings."""
    lines = lines_about(ssh.client, ("include",)) if ssh.client is not None else ()
    return any(line.path == SSH_CONFIG and DROP_IN_FOLDER in line.text for line in lines)


def ports(nodes: Iterable[Peer]) -> str:
    """Return the settings by which `ssh NAME` finds each sshd that is not on port 22.

    An address that several nodes share, behind one that forwards ports, has no port of its own.
    """
    listed = list(nodes)
    shared = [peer.address for peer in listed]
    blocks = []
    for peer in listed:
        if peer.port != SSH_PORT:
            by = [peer.name, *([peer.address] if shared.count(peer.address) == 1 else [])]
            blocks.append(f"Host {' '.join(dict.fromkeys(by))}\n    Port {peer.port}\n")
    # What follows it in the file is for all hosts again.
    return "".join([*blocks, "Match all\n"]) if blocks else ""


def set_by(ssh: SshState, keywords: Iterable[str]) -> str:
    """Name the lines of ssh's files that set a keyword: `ProxyCommand in FILE line 2`."""
    lines = lines_about(ssh.client, keywords) if ssh.client is not None else ()
    return ", ".join(f"{_SHOWN[line.keyword]} in {line.path} line {line.line}" for line in lines)
