"""Sessions of a verification: each chosen node's own, what it is asked, and its end."""

from __future__ import annotations

from dataclasses import dataclass

from pyinfra.api import Host, State, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.base import BaseConnector
from pyinfra.context import ctx_host

from facts.cluster import SSH_PORT, Peer, peers_of
from facts.gather import NotConnected, connect
from facts.gpu_holders import jobs
from facts.gpus import SECTIONS, parse_processes
from facts.named import listed
from facts.probe import MARK, Section, Unreadable, read, render, time_limit
from facts.session import fresh
from facts.sudo import is_refusal, why_refused
from inventories.refusals import refusal, way_on
from inventories.schema import InventoryError, NodeWanted
from verify import nodes
from verify.nodes import Look, Told

_PROCESSES = next(each for each in SECTIONS if each.name == "driver.processes")


class Refused(Exception):
    """A node that cannot take part; str() says which and why."""


@dataclass(frozen=True)
class Node:
    """A chosen node, connected: its peer as the others reach it, and who trains there."""

    host: Host
    peer: Peer
    wanted: NodeWanted
    user: str

    @property
    def name(self) -> str:
        """Its name in the inventory."""
        return self.peer.name

    def python(self) -> str:
        """The Python that the inventory means; "" where it names none."""
        if self.wanted.launcher is not None and self.wanted.launcher.python is not None:
            return self.wanted.launcher.python
        environments = listed(self.host.data.dict().get("nccl_environments") or ())
        return f"{environments[0].rstrip('/')}/bin/python" if environments else ""


def open_node(state: State, host: Host, inventory: str) -> Node:
    """Connect to a chosen host; raises Refused."""
    data = host.data.dict()
    with ctx_host.use(host):
        try:
            connect(state, host)
        except NotConnected as error:
            refused = refusal(error.cause)
            way = f": {way_on(refused, inventory, host.name)}" if refused is not None else ""
            raise Refused(f"{host.name}: {error}{way}") from error
    try:
        wanted = NodeWanted.from_data(data)
    except InventoryError as error:
        raise Refused(f"{host.name}: {error}") from error
    address, port = data.get("ssh_hostname") or host.name, data.get("ssh_port") or SSH_PORT
    known = {peer.name: peer for peer in peers_of(data)}
    peer = known.get(host.name, Peer(name=host.name, address=address, port=port))
    return Node(host, peer, wanted, data.get("launcher_user") or data.get("ssh_user") or "")


def require_idle(node: Node) -> None:
    """Refuse a node of which processes hold GPUs: a run beside a job would slow or break it."""
    sudo = node.host.data.dict().get("_sudo") is True
    try:
        found = parse_processes(ask(node.host.connector, node.host, _PROCESSES, sudo=sudo))
    except Unreadable as error:
        raise Refused(f"{node.name}: could not tell who holds its GPUs: {error}") from error
    if held := jobs(found, "verify"):
        raise Refused(
            f"{node.name}: GPUs are held by {held}; nothing was started. Wait until the job has "
            "ended, or give --allow-disruption"
        )


def look(node: Node, run: str, python: str, names: list[str]) -> Look:
    """Lay the job on a node and ask its Python about itself; raises Refused."""
    try:
        section = nodes.look(run, node.user, python, names)
        text = ask(node.host.connector, node.host, section)
    except Unreadable as error:
        raise Refused(f"{node.name}: {error}") from error
    try:
        if nodes.NO_PYTHON in text.splitlines():
            raise Unreadable("not there, or not in the PATH of a shell without a terminal")
        return nodes.parse_look(text)
    except Unreadable as error:
        who = python or "python3"
        raise Refused(f"{node.name}: {who}: {error}; {nodes.SAY_PYTHON}") from error


def told(node: Node, run: str) -> Told:
    """Return what a node's ranks have said so far; nothing where it cannot be asked any more."""
    try:
        return nodes.parse_told(ask(node.host.connector, node.host, nodes.told(run, node.user)))
    except Unreadable:
        return Told()


def end(node: Node, run: str) -> tuple[str, ...]:
    """End a run on a node and remove it, over a new connection if the first is gone.

    Returns what is left of it. Raises Refused where neither is possible: it then ends there by its
    own time limit.
    """
    section = nodes.end(run, node.user)
    try:
        try:
            left = nodes.parse_end(ask(node.host.connector, node.host, section))
        except Unreadable:
            with fresh(node.host) as connector:
                left = nodes.parse_end(ask(connector, node.host, section))
    except (Unreadable, ConnectError) as error:
        raise Refused(
            f"{node.name}: could not be cleared up: {error}; what runs there ends by itself, and "
            f"{nodes.folder(run)} may be removed then"
        ) from error
    return tuple(f"{node.name}: {what} is left" for what in left)


def launch(node: Node, script: str, seconds: int) -> str:
    """Run the launching node's script; return what broke it, "" if it came to its end."""
    command = StringCommand(nodes.as_trainer(node.user, script))
    try:
        with ctx_host.use(node.host):
            node.host.connector.run_shell_command(command, False, False, _timeout=seconds)
    except TimeoutError:
        return f"{node.name}: the launcher was not back after {seconds} s"
    except Exception as error:  # the transport broke: paramiko and socket errors of many classes
        return f"{node.name}: the connection broke: {str(error) or type(error).__name__}"
    return ""


def ask(connector: BaseConnector, host: Host, section: Section, sudo: bool = False) -> str:
    """Return what a node answers to one section; raises Unreadable."""
    command = StringCommand(render([section]))
    seconds = time_limit([section])
    try:
        with ctx_host.use(host):
            _, output = connector.run_shell_command(
                command, False, False, _timeout=seconds, _sudo=sudo
            )
    except TimeoutError:
        raise Unreadable(f"no answer within {seconds} s") from None
    except Exception as error:  # as in launch
        why = f"the connection broke: {str(error) or type(error).__name__}"
        raise Unreadable(why) from error
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
