"""The pre-flight of a server: it and all nodes are asked at once, and nothing is changed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gevent

from drift.network import AUTO, choose
from drift.preflight import Newcomer, Row, judged
from drift.preflight.hardware import models
from facts import preflight as facts
from facts import reach
from facts.cluster import SSH_PORT, Peer
from facts.gather import all_data, ask_each
from facts.probe import Readings, Section, read, render, time_limit
from inventories import pinned
from inventories.schema import NetworkWanted, NodeWanted
from onboarding.site import known_hosts

# Runs sh on the server, as root, for at most so many seconds; returns the lines it says.
Run = Callable[[str, int], list[str]]


@dataclass(frozen=True)
class Looked:
    """What a server and the nodes of the cluster said, before anything was changed."""

    newcomer: Newcomer
    found: facts.NewcomerState
    members: Mapping[str, reach.MemberState | str]

    def rows(self, wanted: NodeWanted | None = None, group: str | None = None) -> list[Row]:
        """Return the verdicts, by what the inventory would want of it and the group given."""
        return judged(self.found, self.members, replace(self.newcomer, group=group), wanted)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The server's GPUs, each by its name, or by the PCI id of which no table knows one."""
        ids = [device.id for device in self.found.driver.devices or ()]
        return tuple(name or ids[n] for n, name in enumerate(models(self.found)))

    @property
    def interface(self) -> str | None:
        """The interface that carries its address; None where that cannot be told."""
        auto = NetworkWanted(interface=AUTO)
        return choose(self.found.network, auto, self.newcomer.address).name


def look(
    run: Run,
    inventory: str | None,
    name: str,
    address: str,
    port: int = SSH_PORT,
    host_keys: Sequence[str] = (),
    folders: Sequence[str] = (),
) -> Looked:
    """Ask a server and the nodes of an inventory (its .py) whether it can be node `name`.

    `inventory` is None where it has no node yet, and would be refused as one without any.
    `host_keys` are those of the server that were accepted, `type key` each; `folders` are to be
    filled. A node of that very name is left out: it is the server itself. What `run` raises is
    raised; so is PyinfraError where the inventory cannot be used.
    """
    data = all_data(inventory) if inventory else {}
    data = {each: said for each, said in data.items() if each != name}
    newcomer = Newcomer(
        name=name,
        address=address,
        port=port,
        addresses=_resolved(address) or (),
        host_keys=tuple(host_keys),
        nodes=_peers(data),
        pinned={each: _pinned(each, said) for each, said in data.items()},
        here=_resolved(name),
    )
    own = Peer(name=name, address=address, port=port)
    asked = facts.sections(own, newcomer.nodes, newcomer.pinned, folders)
    asking = gevent.spawn(_ask, run, asked)
    try:
        members = _members(inventory, list(data), reach.member_sections(own, host_keys))
        said = asking.get()
    finally:
        asking.kill()
    if isinstance(said, Exception):
        raise said
    readings, begun, ended = said
    newcomer = replace(newcomer, asked=begun, answered=ended)
    return Looked(newcomer, facts.parse(readings), members)


def _ask(run: Run, sections: Sequence[Section]) -> tuple[Readings, float, float] | Exception:
    """Return the server's answers, and this machine's clock before and after them.

    What is raised is returned: gevent prints a traceback of whatever leaves a greenlet.
    """
    begun = time.time()
    try:
        lines = run(render(sections), time_limit(sections))
    except Exception as error:
        return error
    return read(lines, sections), begun, time.time()


def _members(
    inventory: str | None, names: list[str], sections: Sequence[Section]
) -> dict[str, reach.MemberState | str]:
    """Return each node's state, or why there is none."""
    answers = ask_each(inventory, names, sections) if inventory and names else {}
    return {
        name: said if isinstance(said, str) else reach.parse_member(said)
        for name, said in answers.items()
    }


def _peers(data: Mapping[str, Mapping[str, Any]]) -> tuple[Peer, ...]:
    return tuple(
        Peer(
            name=name,
            address=said.get("ssh_hostname") or name,
            port=said.get("ssh_port") or SSH_PORT,
        )
        for name, said in data.items()
    )


def _pinned(name: str, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the host keys that the inventory's known_hosts has for a node."""
    try:
        text = pinned.read(known_hosts(data))
    except OSError:
        return ()
    port = data.get("ssh_port") or SSH_PORT
    first, *_ = pinned.lookups(name, data.get("ssh_hostname") or name, port)
    return tuple(pinned.keys_of(text, first))


def _resolved(name: str) -> tuple[str, ...] | None:
    """Return the addresses of a name here; none where nobody knows it, None without an answer."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        unknown = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
        return () if error.errno in unknown else None
    return tuple(dict.fromkeys(str(each[4][0]) for each in found))
