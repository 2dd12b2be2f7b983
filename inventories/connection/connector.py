"""The connector `@gpu-node`: pyinfra reaches the nodes of a cluster file by it, with limits.

    pyinfra @gpu-node/cluster/site.yml deploy/gpu_node.py

pyinfra imports this module for every inventory, also of other projects: it changes nothing of
pyinfra or paramiko, and imports what reads a cluster file only when one is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from socket import gaierror
from typing import IO, Any
from weakref import WeakKeyDictionary

from paramiko import AuthenticationException, SFTPClient, SSHException, Transport
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api import output as pyinfra_output
from pyinfra.api.command import StringCommand
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.ssh_util import raise_connect_error
from pyinfra.connectors.util import CommandOutput, make_unix_command_for_host
from typing_extensions import override

from gpu_node.inventories.connection.capped import LONGEST_SECONDS, Answer, Talk, run
from gpu_node.inventories.connection.client import Client
from gpu_node.inventories.connection.commands import Output, Shown, password_shown, stdin_bytes
from gpu_node.inventories.connection.known_hosts import SSH_PORT
from gpu_node.inventories.connection.names import INVENTORY
from gpu_node.inventories.connection.refused_keys import explained, look, refusal
from gpu_node.inventories.connection.ssh_config import destination
from gpu_node.inventories.connection.sudo import SECONDS as SUDO_SECONDS
from gpu_node.inventories.connection.sudo import SUDO, Feed
from gpu_node.inventories.connection.transport import CONNECT_SECONDS, ended_after, within
from gpu_node.inventories.errors import quoted

# How long a node may take none of an upload, and how long a session for one may take to begin.
_UPLOAD_IDLE_SECONDS, _UPLOAD_BEGIN_SECONDS = 120, 60
# Of each node, the longest time limit that a command ran into.
_missed: WeakKeyDictionary[Host, float] = WeakKeyDictionary()


class Connector(SSHConnector):
    """SSH to a node that may be hostile: strict host keys on each hop, and limits on what it sends.

    Its errors have the next step.
    """

    @staticmethod
    @override
    def make_names_data(name: str | None) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        """Yield the nodes of a cluster file, by plain names, with their data and groups."""
        from gpu_node.inventories.pyinfra_groups import names_data

        return names_data(name or "")

    @override
    def connect(self) -> None:
        try:
            super().connect()
        except PyinfraError as error:
            raise ConnectError(self._explained(error)) from error

    def _explained(self, error: PyinfraError) -> str:
        """Return why there is no connection, and what to do."""
        cause = error.__context__
        if isinstance(cause, gaierror):
            name = self.data["ssh_hostname"] or self.host.name
            host = destination(name, self.data["ssh_config_file"])[0]
            return (
                f"Could not resolve hostname {quoted(host)} ({cause.strerror}); next: correct the "
                "node's address in the inventory, or the name in this machine's DNS or /etc/hosts"
            )
        refused = refusal(error)
        if refused is None:
            then = look(cause, self.data["ssh_port"] or SSH_PORT)
            return f"{error}; next: {then}" if then else str(error)
        inventory = self.host.data.get(INVENTORY) or "INVENTORY"
        return explained(str(error), refused, inventory, self.host.name)

    @override
    def _connect(self) -> None:
        with self._in_time():
            options = self.make_paramiko_kwargs()
            hostname = options.pop("hostname")
            self.client = Client()
            try:
                self.client.connect(hostname, **options)
            except AuthenticationException as error:
                by = [f"username={options['username']}"] if "username" in options else []
                by += [f"key={self.data['ssh_key']}"] if "pkey" in options else []
                raise_connect_error(self.host, f"Authentication error ({', '.join(by)})", error)
            except SSHException as error:
                if not self._retry_paramiko_agent_keys(hostname, options, error):
                    raise

    @override
    def _retry_paramiko_agent_keys(
        self, hostname: str, kwargs: dict[str, Any], error: SSHException
    ) -> bool:
        """Offer the agent's keys on a connection each: sshd hangs up after some refused ones.

        paramiko goes on with the next key then, and has no session (paramiko issue 1390).
        """
        if "no existing session" not in str(error).lower() or not kwargs.get("allow_agent"):
            return False
        first = self.client
        keys = first.agent_keys() if isinstance(first, Client) else []
        for key in keys[1:] or keys:  # paramiko has offered the first one
            self._cut()
            self.client = Client()
            try:
                self.client.connect(hostname, **{**kwargs, "allow_agent": False, "pkey": key})
                return True
            except AuthenticationException:
                continue
        return False

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Cut a connection that does not come about, or not in time; its thread would read on."""
        with ended_after(CONNECT_SECONDS, self._cut, "login"):
            try:
                yield
            except BaseException:
                self._cut()
                raise

    def _cut(self) -> None:
        if isinstance(self.client, Client):
            self.client.cut()

    def _transport(self) -> Transport:
        transport = self.client.get_transport() if self.client else None
        if transport is None:
            raise OSError("not connected")
        return transport

    @override
    def run_shell_command(
        self,
        command: StringCommand,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        """Execute a command as pyinfra's connector does; no output asks for a password here.

        `_stdin` may be a `Talk`. Raises PyinfraError for a password among the arguments.
        """
        if problem := password_shown(arguments):
            raise PyinfraError(problem)
        terminal = arguments.pop("_get_pty", False)
        seconds = arguments.pop("_timeout", None) or LONGEST_SECONDS
        given = arguments.pop("_stdin", None)
        talk: Talk | None = given if hasattr(given, "more") else None
        stdin = b"" if talk else stdin_bytes(given)
        codes = arguments.pop("_success_exit_codes", None) or (0,)
        feed = self._sudo_feed() if arguments.get("_sudo") else None
        if feed is not None:
            if feed.refusal:
                return False, Output(Answer(1, [("stderr", f"{feed.refusal}\n".encode())]))
            # A terminal would print the password.
            terminal, stdin = False, f"{feed.lines}\n".encode() + stdin
            command = StringCommand(feed.behind(""), command, _separator="")
        made = make_unix_command_for_host(self.state, self.host, command, **arguments)
        logger.debug("Running command on %s: (pty=%s) %s", self.host.name, terminal, made)
        if print_input:
            pyinfra_output.echo(f"{self.host.print_prefix}>>> {made}", err=True)
        shown = Shown(self.host.print_prefix) if print_output else None
        take = shown.take if shown else talk.hear if talk else lambda stream, data: None
        try:
            answer = run(
                self._transport(),
                feed.line(made.get_raw_value()) if feed else made.get_raw_value(),
                seconds,
                stdin,
                bool(terminal),
                take,
                talk.more if talk else lambda: None,
            )
        except TimeoutError:
            _missed[self.host] = max(seconds, _missed.get(self.host, 0))
            raise
        finally:
            if shown:
                shown.end()
        if feed is not None and answer.code != 0:
            SUDO.heard(self.host.name, answer.of("stderr").decode("utf-8", "replace"))
        return answer.code in codes, Output(answer)

    def by_sudo(self) -> dict[str, str]:
        """Return variables of the probe, which starts sudo itself; none without a password."""
        feed = self._sudo_feed()
        return {} if feed is None else {"gn_sudo": feed.shell, "gn_fed": feed.lines}

    def sudo_refuses(self, words: str) -> None:
        """Take what sudo of the probe printed where it became not root."""
        SUDO.heard(self.host.name, words)

    def _sudo_feed(self) -> Feed | None:
        return SUDO.feed(
            self.host.name, lambda line, stdin: run(self._transport(), line, SUDO_SECONDS, stdin)
        )

    @override
    def _put_file(self, filename_or_io: str | IO[Any], remote_location: str) -> None:
        with within(self._transport(), _UPLOAD_BEGIN_SECONDS):
            sftp = self.get_file_transfer_connection()
        if isinstance(sftp, SFTPClient) and (channel := sftp.get_channel()) is not None:
            channel.settimeout(_UPLOAD_IDLE_SECONDS)
        super()._put_file(  # type: ignore[no-untyped-call]
            filename_or_io, remote_location
        )


def missed(host: Host) -> float:
    """Return the longest time limit that a node ran into since this was last asked, else 0."""
    return _missed.pop(host, 0)


def adopt(state: State) -> None:
    """Have the nodes that pyinfra has reached by SSH of its own go on by this connector.

    Such nodes are those of an inventory that is not ours. Their open connections stay.
    """
    for host in state.inventory:
        former = host.connector
        if type(former) is SSHConnector:
            host.connector = Connector(state, host)
            host.connector.client = former.client
