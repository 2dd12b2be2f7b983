"""The pre-flight of a server: it and all nodes are asked at once, and nothing is changed."""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gevent

from gpu_node.drift.driver.rules_gpus import cards
from gpu_node.drift.engine.check import judge
from gpu_node.drift.engine.judgement import LOOK, Judgement
from gpu_node.drift.engine.nodes import Judged, Newcomer, Nodes
from gpu_node.drift.network.interfaces import AUTO, choose
from gpu_node.drift.report.model import Report, report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.ask.gather import all_data, ask_each
from gpu_node.facts.node import NodeState, parse_part, sections
from gpu_node.facts.probe.bounds import not_understood
from gpu_node.facts.probe.peers import SSH_PORT, Peer
from gpu_node.facts.probe.protocol import Readings, Section, Times, read, render, time_limit
from gpu_node.facts.probe.request import Joining, ProbeRequest
from gpu_node.inventories.connection import known_hosts as pinned
from gpu_node.inventories.wanted import NetworkWanted, NodeWanted, unset
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.inventory_files import known_hosts
from gpu_node.onboarding.journal import Journal

# Runs sh on the server, as root, for at most so many seconds; returns the lines of its output.
Run = Callable[[str, int], list[str]]
# The beginnings of the sections that the server is asked, and the nodes about it.
_OF_SERVER = (
    *("clock.", "driver.", "fabric.", "network.", "ssh.", "nccl.manager", "host.disks"),
    *("host.machine-id", "host.memory", "host.name", "host.package-lock", "host.repositories"),
    "host.system",
)
_OF_NODES = ("driver.uuids", "host.machine-id", "network.", "ssh.")
_ASK_AGAIN = "find out why the server gives no answer, then run again"
_UNKNOWN = "cannot check whether it is the same machine, or connects; run again when it answers"


@dataclass(frozen=True)
class Answers:
    """The answers of a server and of the nodes of the cluster; nothing was changed.

    `silent` are the nodes without an answer, each with the reason.
    """

    nodes: Nodes
    newcomer: Newcomer
    state: NodeState
    silent: Mapping[str, str]

    def report(self, wanted: NodeWanted | None = None) -> Report:
        """Return the report, by what the inventory would want of it.

        What the inventory turns off counts here: an option disarms no guard. So does what is unread
        of SSH, where the inventory does not name SSH.
        """
        name, nothing = (
            self.nodes.name,
            NodeWanted.from_data({"ssh_hostname": self.newcomer.address}),
        )
        wanted = wanted or nothing
        wanted = wanted.model_copy(update={"checks": None, "ssh": wanted.ssh or unset("ssh")})
        judged = judge({name: Judged(self.state, wanted, self.nodes)})
        found = [
            each.model_copy(update={"fix": _ASK_AGAIN}) if each.fix == LOOK else each
            for each in judged.findings[name]
        ]
        broken = dict.fromkeys(judged.blamed - {name}, "its answer is not understood")
        unasked = {
            each: Seen(nothing, error=f"{why}: {_UNKNOWN}", reached=each in broken)
            for each, why in {**self.silent, **broken}.items()
        }
        return report_of("", {name: Seen(wanted, self.state), **unasked}, Judgement({name: found}))

    @property
    def gpus(self) -> tuple[str, ...]:
        """The server's GPUs, each by its name, or by the PCI id of which no table knows one."""
        return tuple(cards(self.state.driver))

    @property
    def interface(self) -> str | None:
        """The interface that carries its address; None where it cannot be determined."""
        auto = NetworkWanted(interface=AUTO)
        return choose(self.state.network, auto, self.newcomer.address).name


def look(
    run: Run,
    inventory: str | None,
    given: Journal,
    host_keys: Sequence[str] = (),
    folders: tuple[str, ...] = (),
    wanted: Mapping[str, Any] | None = None,
) -> Answers:
    """Ask a server and the nodes of an inventory (its .py) whether it can be a node.

    `inventory` is None where it has no node yet, and would be refused as one without any; `given`
    is how the server is reached.
    `host_keys` are those of the server that were accepted, `type key` each; `folders` are to be
    filled, and `wanted` has the inventory's proxy and training user. A node of that very name is
    left out: it is the server itself. What `run` raises is raised; so is PyinfraError where the
    inventory cannot be used.
    """
    name, address = given.name, given.address
    data = all_data(inventory) if inventory else {}
    data = {each: values for each, values in data.items() if each != name}
    newcomer = Newcomer(
        address=address,
        addresses=_resolved(address) or (),
        group=given.group,
        host_keys=tuple(host_keys),
        pinned={each: _pinned(each, values) for each, values in data.items()},
        here=_resolved(name),
    )
    own, nodes = Peer(name=name, address=address, port=given.port), _peers(data)
    asked = _asked(_OF_SERVER, nodes, Joining(own, nodes, newcomer.pinned, folders, wanted or {}))
    if wanted and (user := wanted.get("launcher_user")):
        request = ProbeRequest(user=user, trains_apart=True)
        asked += [each for each in sections(request) if each.name == "env.user"]
    asked_of_nodes = _asked(_OF_NODES, (own,), Joining(own, (own,), {name: newcomer.host_keys}))
    asking = gevent.spawn(_ask, run, asked)
    try:
        members = _members(inventory, list(data), asked_of_nodes)
        answer = asking.get()
    finally:
        asking.kill()
    if isinstance(answer, Exception):
        raise answer
    known = {each: state for each, state in members.items() if not isinstance(state, str)}
    silent = {each: why for each, why in members.items() if isinstance(why, str)}
    try:
        around = Nodes(name, nodes, known, newcomer=newcomer)
        return Answers(around, newcomer, parse_part(answer), silent)
    except Exception as error:  # as of a member
        raise Stopped(not_understood(error)) from error


def _asked(names: tuple[str, ...], nodes: tuple[Peer, ...], joining: Joining) -> list[Section]:
    request = ProbeRequest(nodes=nodes, joining=joining)
    return [section for section in sections(request) if section.name.startswith(names)]


def _ask(run: Run, asked: Sequence[Section]) -> Readings | Exception:
    """Return the server's answers, with this machine's clock before and after them.

    What is raised is returned: gevent prints a traceback of whatever leaves a greenlet.
    """
    begun = time.time()
    try:
        lines = run(render(asked), time_limit(asked))
    except Exception as error:
        return error
    try:
        return read(lines, asked, Times(begun, time.time()))
    except Exception as error:  # as of a member
        return Stopped(not_understood(error))


def _members(
    inventory: str | None, names: list[str], asked: Sequence[Section]
) -> dict[str, NodeState | str]:
    """Return each node's state, or why there is none."""
    members: dict[str, NodeState | str] = {}
    for name, answer in (ask_each(inventory, names, asked) if inventory and names else {}).items():
        try:
            members[name] = answer if isinstance(answer, str) else parse_part(answer)
        except Exception as error:  # of whatever class: an answer of the node's made it
            members[name] = not_understood(error)
    return members


def _peers(data: Mapping[str, Mapping[str, Any]]) -> tuple[Peer, ...]:
    return tuple(
        Peer(
            name=name,
            address=values.get("ssh_hostname") or name,
            port=values.get("ssh_port") or SSH_PORT,
        )
        for name, values in data.items()
    )


def _pinned(name: str, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the host keys that the inventory's known_hosts has for a node."""
    try:
        text = pinned.read(known_hosts(data))
    except OSError:
        return ()
    address = data.get("ssh_hostname") or name
    first, *_ = pinned.lookups(name, address, data.get("ssh_port"), data.get("ssh_config_file"))
    return tuple(pinned.keys_of(text, first))


def _resolved(name: str) -> tuple[str, ...] | None:
    """Return the addresses of a name here; empty for an unknown name, None without an answer."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        unknown = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
        return () if error.errno in unknown else None
    return tuple(dict.fromkeys(str(each[4][0]) for each in found))
