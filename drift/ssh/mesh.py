"""The mesh as it should be: our lines in authorized_keys, known_hosts and hosts, node by node."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe import checked
from gpu_node.facts.probe.managed_block import Block
from gpu_node.facts.probe.peers import SSH_PORT, Peer
from gpu_node.facts.ssh.state import HostsLine, Names, SshState
from gpu_node.inventories.fields import addresses as fields
from gpu_node.inventories.fields.addresses import is_loopback
from gpu_node.inventories.wanted import NodeWanted

# Neither pdsh nor torchrun, rsync or the DeepSpeed launcher needs one of these; a terminal stays
# allowed, for people go from node to node as well.
RESTRICTIONS = "no-agent-forwarding,no-port-forwarding,no-X11-forwarding"
# From where a node logs in to itself, whatever its name means there.
LOOPBACK = ("127.0.0.1", "::1")
# The parser has looked closer; a line must never have more than these two words of a node.
_KEY = re.compile(r"[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}")
_FROM = re.compile(r'^from="([^"]*)"')

T = TypeVar("T")
Lines = Mapping[str, tuple[str, ...]]


def has_mesh(wanted: NodeWanted, nodes: Nodes) -> bool:
    """Whether a node's mesh is managed; one without others has no node to log in to."""
    return wanted.ssh is not None and wanted.ssh.mesh is True and has_others(nodes)


def has_others(nodes: Nodes) -> bool:
    """Whether the inventory names another node than this one."""
    return any(peer.name != nodes.name for peer in nodes.peers)


def with_one_user(state: NodeState, nodes: Nodes) -> Nodes:
    """Return the nodes whose training user is this node's, which alone log in to each other.

    The key of another user must not be let in: it could become root that way. Where the inventory
    names users, an answer makes no other user the same.
    """
    users = of_run(_users, state, nodes)
    own = users.get(nodes.name, ("", ""))
    if all(each == own for each in users.values()):
        return nodes
    same = tuple(peer for peer in nodes.peers if _is_one_user(own, users[peer.name]))
    return replace(nodes, peers=same, made={})


def _users(nodes: Nodes) -> dict[str, tuple[str, str]]:
    """Return the training user of each node, by the inventory and by its answer; empty: unknown."""
    accounts = {
        name: state.ssh.account.user for name, state in nodes.states.items() if state.ssh.account
    }
    return {peer.name: (peer.user, accounts.get(peer.name, "")) for peer in nodes.peers}


def _is_one_user(own: tuple[str, str], other: tuple[str, str]) -> bool:
    pairs = zip(own, other, strict=True)
    return all(here == there or not here or not there for here, there in pairs)


def state_of(name: str, node: NodeState, nodes: Nodes) -> SshState | None:
    """Return what is known of a node's SSH; None for one that was not asked in this run."""
    if name == nodes.name:
        return node.ssh
    state = nodes.states.get(name)
    return state.ssh if state is not None else None


@lru_cache(maxsize=1 << 14)  # every node is asked about the address of every other one
def is_address(text: str) -> bool:
    """Whether the inventory names a node by an address, not by another name."""
    return fields.is_address(text.partition("%")[0])


def meant(peer: Peer, names: Names) -> tuple[str, ...] | None:
    """Return the addresses that the inventory means by a node's; None where that is unknown."""
    if is_address(peer.address):
        return (checked.address(peer.address),)
    return names.addresses.get(peer.name)


def comes_from(peer: Peer, state: SshState) -> tuple[str, ...]:
    """Return the addresses that a node's logins to the others come from, in a fixed order."""
    names = state.names
    own = (meant(peer, names) if names is not None else None) or ()
    if not own and is_address(peer.address):
        own = (checked.address(peer.address),)
    sources = () if names is None else names.sources
    outside = {each for each in (*own, *sources) if not is_loopback(each)}
    return tuple(sorted(outside))


def authorized_line(node: str, public: str, addresses: Collection[str], itself: bool) -> str:
    """Return the line that lets a node's key in, from that node alone."""
    allowed = (*map(checked.address, addresses), *(LOOPBACK if itself else ()))
    if not addresses:
        raise ValueError(f"no address of {node} that its logins come from")
    if not _KEY.fullmatch(public):
        raise ValueError(f"not a public key of {node}: {public[:60]!a}")
    return f'from="{",".join(allowed)}",{RESTRICTIONS} {public} gpu-node:{node}'


def lets_in(block: Block, node: str, public: str, addresses: Collection[str]) -> bool:
    """Whether our lines let a node's key in from all of these addresses."""
    for line in block.of(node):
        listed = _FROM.match(line)
        given = set(listed[1].split(",")) if listed else set()
        if f" {public} " in line and addresses and given.issuperset(addresses):
            return True
    return False


def known_lines(peer: Peer, keys: Iterable[str]) -> tuple[str, ...]:
    """Return a node's lines of known_hosts: by name, by address, and with its port."""
    plain = list(dict.fromkeys((peer.name, peer.address)))
    if peer.port != SSH_PORT:
        plain += [f"[{each}]:{peer.port}" for each in plain]
    if odd := [key for key in keys if not _KEY.fullmatch(key)]:
        raise ValueError(f"not a host key of {peer.name}: {odd[0][:60]!a}")
    return tuple(f"{','.join(plain)} {key} gpu-node:{peer.name}" for key in keys)


def hosts_lines(peer: Peer, names: Names) -> tuple[str, ...]:
    """Return a node's line of /etc/hosts; none where its address is not known."""
    addresses = meant(peer, names)
    return (_hosts_line(checked.address(addresses[0]), peer.name),) if addresses else ()


def _hosts_line(address: str, name: str) -> str:
    return f"{address} {name} # gpu-node:{name}"


def of_run(make: Callable[[Nodes], T], state: NodeState, nodes: Nodes) -> T:
    """Return what `make` makes of the nodes and their states: once for all nodes of a run.

    A rule is asked about each node: what it compares them with must not be made anew for each.
    """
    if nodes.states.get(nodes.name) is state:
        return nodes.once(make)
    return make(replace(nodes, states={**nodes.states, nodes.name: state}, made={}))


def asked(nodes: Nodes) -> list[tuple[Peer, SshState]]:
    """Return the nodes that were asked in this run, with what they answered."""
    states = ((peer, nodes.states.get(peer.name)) for peer in nodes.peers)
    return [(peer, state.ssh) for peer, state in states if state is not None]


def known_wanted(state: NodeState, nodes: Nodes) -> Lines:
    """Return the lines of known_hosts about each node whose host keys were read in this run."""
    return of_run(_known_wanted, state, nodes)


def _known_wanted(nodes: Nodes) -> Lines:
    return {
        peer.name: known_lines(peer, state.host_keys)
        for peer, state in asked(nodes)
        if state.host_keys and not state.left_out
    }


def unresolved_peers(names: Names, state: NodeState, nodes: Nodes) -> list[Peer]:
    """Return the nodes whose names mean something else here than their addresses, or nothing."""
    answers = {**names.names, **dict.fromkeys(names.silent, ())}
    odd = (
        peer
        for peer, usual in of_run(_usual_pairs, state, nodes)
        if answers.get(peer.name, usual) != usual
    )
    return [peer for peer in odd if not resolves(peer, names)]


def _usual_pairs(nodes: Nodes) -> list[tuple[Peer, tuple[str, ...] | None]]:
    usual = _usual(nodes)
    return [(peer, usual.get(peer.name)) for peer in nodes.peers]


def _usual(nodes: Nodes) -> dict[str, tuple[str, ...]]:
    """Return to what the names of nodes resolve where all is well, as far as the inventory says."""
    addresses = {
        peer.name: checked.address(peer.address)
        for peer in nodes.peers
        if is_address(peer.address) and not is_loopback(peer.address)
    }
    return {name: (each,) for name, each in addresses.items()}


def hosts_wanted(state: NodeState, nodes: Nodes) -> Lines:
    """Return the lines of /etc/hosts about the nodes whose names mean something else without."""
    names, hosts = state.ssh.names, state.ssh.hosts
    if names is None or hosts is None:
        return {}
    listed = hosts.block.by_node
    needed = {peer.name for peer in unresolved_peers(names, state, nodes)}
    usual = of_run(_usual_lines, state, nodes)
    lines = {
        peer.name: usual.get(peer.name) or hosts_lines(peer, names)
        for peer in nodes.peers
        if peer.name in listed or peer.name in needed
    }
    return {name: each for name, each in lines.items() if each}


def _usual_lines(nodes: Nodes) -> Lines:
    return {name: (_hosts_line(each, name),) for name, (each,) in _usual(nodes).items()}


def installers_line(node: str, lines: Iterable[HostsLine]) -> HostsLine | None:
    """Return the line by which Debian's installer has a node's own name mean loopback.

    It has that name alone; one with more names, such as a domain's, is a user's.
    """
    return next((line for line in lines if is_installers(line.text, node)), None)


def is_installers(line: str, node: str) -> bool:
    """Whether a line of /etc/hosts is `127.0.1.1 NODE` and nothing else."""
    return line.split() == ["127.0.1.1", node] and not line[0].isspace()


def resolves(peer: Peer, names: Names) -> bool:
    """Whether a node's name means its address here; what was not asked is not called wrong."""
    if peer.name in names.silent:
        return False
    resolved, wanted = names.names.get(peer.name), meant(peer, names)
    if resolved is None or wanted is None:
        return True
    return bool(resolved) and resolved[0] in wanted and not any(map(is_loopback, resolved))


def left_over(block: Block, nodes: Nodes) -> list[str]:
    """Return the nodes that have lines in a block and that the inventory no longer names."""
    named = nodes.once(names_of)
    return [name for name in block.by_node if name not in named]


def names_of(nodes: Nodes) -> frozenset[str]:
    """Return the names of all nodes of the inventory."""
    return frozenset(peer.name for peer in nodes.peers)
