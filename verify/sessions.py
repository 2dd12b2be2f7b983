"""A verification's session with each node: connecting, asking, starting, ending."""

from dataclasses import dataclass

from pyinfra.api import Host, State
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.base import BaseConnector
from pyinfra.context import ctx_host

from gpu_node.facts.ask.execute import NoAnswer, NoAnswerInTime, execute
from gpu_node.facts.ask.gather import NotConnected, connect
from gpu_node.facts.ask.session import fresh
from gpu_node.facts.ask.sudo import is_refusal, why_refused
from gpu_node.facts.driver.gpu_holders import jobs
from gpu_node.facts.driver.gpus import SECTIONS, parse_processes
from gpu_node.facts.probe.peers import ONE_NAME, SSH_PORT, Peer, are_one, peers_of
from gpu_node.facts.probe.protocol import MARK, Section, Unreadable, read, render, time_limit
from gpu_node.facts.probe.request import listed, request_of
from gpu_node.inventories.connection.capped import Talk
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.wanted import NodeWanted
from gpu_node.verify import nodes
from gpu_node.verify.nodes import RankOutput
from gpu_node.verify.output import Look

_PROCESSES = next(each for each in SECTIONS if each.name == "driver.processes")


class Refused(Exception):
    """A node cannot take part; str() names it and gives the reason."""


@dataclass(frozen=True)
class Node:
    """A connected node: its peer as the other nodes reach it, and the training user."""

    host: Host
    peer: Peer
    wanted: NodeWanted
    user: str

    @property
    def name(self) -> str:
        """Its name in the inventory."""
        return self.peer.name

    @property
    def by_sudo(self) -> bool:
        """Whether root starts the training user's programs: only root's part gets a password."""
        request = request_of(self.host.data.dict())
        return SUDO.is_given and request.sudo and request.trains_apart

    def python(self) -> str:
        """The Python that the inventory names; "" if it names none."""
        if self.wanted.launcher is not None and self.wanted.launcher.python is not None:
            return self.wanted.launcher.python
        environments = listed(self.host.data.dict().get("nccl_environments") or ())
        return f"{environments[0].rstrip('/')}/bin/python" if environments else ""


def open_node(state: State, host: Host) -> Node:
    """Connect to a chosen host; raises Refused."""
    data = host.data.dict()
    with ctx_host.use(host):
        try:
            connect(state, host)
        except NotConnected as error:
            raise Refused(f"{host.name}: {error}") from error
    try:
        wanted = NodeWanted.from_data(data)
    except InventoryError as error:
        raise Refused(f"{host.name}: {error}") from error
    address, port = data.get("ssh_hostname") or host.name, data.get("ssh_port") or SSH_PORT
    known = {peer.name: peer for peer in peers_of(data)}
    peer = known.get(host.name, Peer(name=host.name, address=address, port=port))
    return Node(host, peer, wanted, data.get("launcher_user") or data.get("ssh_user") or "")


def require_idle(node: Node) -> Node:
    """Return a node; refuses one whose GPUs are held: a run would slow or break a job."""
    sudo = node.host.data.dict().get("_sudo") is True
    try:
        found = parse_processes(ask(node.host.connector, node.host, _PROCESSES, sudo=sudo))
    except Unreadable as error:
        why = f"cannot determine which processes hold its GPUs: {error}"
        raise Refused(f"{node.name}: {why}") from error
    if held := jobs(found, "verify"):
        raise Refused(
            f"{node.name}: GPUs are held by {held}; nothing was started there. Wait until the job "
            "has ended, or give --allow-disruption"
        )
    return node


def look(node: Node, run: str, python: str, names: list[str]) -> Look:
    """Write the job to a node and check its Python; raises Refused."""
    try:
        section = nodes.look(run, node.user, python, names, node.name)
        text = ask(node.host.connector, node.host, section, node.by_sudo)
    except Unreadable as error:
        raise Refused(f"{node.name}: {error}") from error
    if text.startswith(nodes.SAME_MACHINE):
        other = text.strip().removeprefix(nodes.SAME_MACHINE)
        known = other if other in names else "another node"
        raise Refused(f"{are_one(f'{known} and {node.name}')}, or share /tmp; next: {ONE_NAME}")
    try:
        return nodes.parse_look(text)
    except Unreadable as error:
        who = python or "python3"
        raise Refused(f"{node.name}: {who}: {error}; {nodes.NAME_PYTHON}") from error


def rank_output(node: Node, run: str) -> RankOutput:
    """Return the output of a node's ranks so far; empty if the node does not answer any more."""
    try:
        section = nodes.rank_output(run, node.user)
        return nodes.parse_rank_output(ask(node.host.connector, node.host, section, node.by_sudo))
    except Unreadable:
        return RankOutput()


def end(node: Node, run: str) -> tuple[str, ...]:
    """End a run on a node and remove its files, over a new connection if the first is lost.

    Returns what is left of it. Raises Refused if the node cannot be reached: there the run ends by
    its time limit.
    """
    section = nodes.end(run, node.user)
    try:
        try:
            left = nodes.parse_end(ask(node.host.connector, node.host, section, node.by_sudo))
        except Unreadable:
            with fresh(node.host) as connector:
                left = nodes.parse_end(ask(connector, node.host, section, node.by_sudo))
    except (Unreadable, ConnectError) as error:
        raise Refused(
            f"{node.name}: cannot clean up: {error}; what runs there ends by its time limit; "
            f"then remove {nodes.folder(run)}"
        ) from error
    return tuple(f"{node.name}: {what} remains" for what in left)


def launch(node: Node, script: str, seconds: int, stdin: Talk | None = None) -> str:
    """Run a script as the training user; return what broke it, "" if it ran to its end."""
    try:
        with ctx_host.use(node.host):
            script = nodes.as_trainer(node.user, script)
            execute(node.host.connector, script, seconds, {"_sudo": node.by_sudo}, stdin)
    except NoAnswerInTime:
        return f"{node.name}: the launcher did not end within {seconds} s"
    except NoAnswer as error:
        return f"{node.name}: {error}"
    return ""


def ask(connector: BaseConnector, host: Host, section: Section, sudo: bool = False) -> str:
    """Return what a node answers to one section; raises Unreadable."""
    try:
        with ctx_host.use(host):
            _, output = execute(
                connector, render([section]), time_limit([section]), {"_sudo": sudo}
            )
    except NoAnswer as error:
        raise Unreadable(str(error)) from error
    if sudo and not any(line.startswith(MARK) for line in output.stdout_lines):
        raise Unreadable(_refusal(output.stderr, host))
    try:
        return read(output.stdout_lines, [section]).sections[section.name].require()
    except Unreadable as error:
        if is_refusal(str(error)):
            raise Unreadable(_refusal(str(error), host)) from error
        raise


def _refusal(output: str, host: Host) -> str:
    """Return why sudo refuses the SSH user, and what to do."""
    refused = why_refused(output, host.data.dict().get("ssh_user") or "")
    return f"{refused.reason} ({refused.words}): {refused.fix}"
