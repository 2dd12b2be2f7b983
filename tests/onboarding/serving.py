"""An sshd of the test itself: real handshakes and logins, and commands that run here."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from paramiko import Channel, ECDSAKey, Message, PKey, ServerInterface, SSHException, Transport
from paramiko.common import (
    AUTH_FAILED,
    AUTH_PARTIALLY_SUCCESSFUL,
    AUTH_SUCCESSFUL,
    MSG_CHANNEL_SUCCESS,
    OPEN_SUCCEEDED,
)
from paramiko.server import InteractiveQuery
from typing_extensions import override

from gpu_node.inventories.connection import trusted
from gpu_node.onboarding.trust.host_keys import Server

PASSWORD = "s3cr3t hunter2 \xfc"


@dataclass
class Sshd:
    """What the server has and allows; a test changes it between connections."""

    home: Path
    port: int = 0
    keys: list[PKey] = field(default_factory=lambda: [ECDSAKey.generate()])
    methods: str = "publickey,password"
    authorized: list[PKey] = field(default_factory=list)
    password: str = PASSWORD
    # What a hidden prompt asks, and one that shows what is typed.
    prompts: list[tuple[str, bool]] = field(default_factory=lambda: [("Password: ", False)])
    # Called with each connection in the place of SSH.
    instead: Callable[[socket.socket], None] | None = None
    # Called when a password arrives.
    on_password: Callable[[], object] | None = None
    # Called when a client offers no credentials.
    on_none: Callable[[], object] | None = None
    accepts_none: bool = False
    second_factor: bool = False
    runs_commands: bool = True
    # What answers a command in the place of this machine.
    answer: Callable[[Channel, bytes], None] | None = None
    # Where connections through it went.
    forwarded: list[tuple[str, int]] = field(default_factory=list)
    # Whether a client has asked to forward an agent.
    agent_asked: bool = False
    # What its commands find before every other folder of PATH.
    path: str = ""
    # The configuration that it has read: it decides about passwords, too.
    running: Path | None = None
    attempts: list[str] = field(default_factory=list)

    def server(self, **other: object) -> Server:
        """The way to it."""
        known_hosts = self.home.parent / "known_hosts"
        given = {"name": "n", "address": "127.0.0.1", "port": self.port, "user": "root"}
        return Server(**{**given, "known_hosts": known_hosts, "key": None, **other})  # type: ignore[arg-type]

    @property
    def host_key(self) -> str:
        """Its first host key, as known_hosts has it."""
        return f"{self.keys[0].get_name()} {self.keys[0].get_base64()}"

    @property
    def authorized_keys(self) -> Path:
        """The file on it."""
        return self.home / ".ssh" / "authorized_keys"


class _Login(ServerInterface):
    """Decides about one connection."""

    def __init__(self, sshd: Sshd) -> None:
        self.sshd = sshd
        # Those of this connection.
        self.channels: list[Channel] = []
        # What begins once the other end has heard that its command was taken.
        self.begins: list[threading.Thread] = []

    @override
    def get_allowed_auths(self, username: str) -> str:
        running = self.sshd.running
        if running and "PasswordAuthentication no" in running.read_text():
            return "publickey"
        return self.sshd.methods

    def _after(self, right: bool) -> int:
        if not right:
            return AUTH_FAILED
        return AUTH_PARTIALLY_SUCCESSFUL if self.sshd.second_factor else AUTH_SUCCESSFUL

    @override
    def check_auth_none(self, username: str) -> int:
        if self.sshd.on_none:
            self.sshd.on_none()
        return AUTH_SUCCESSFUL if self.sshd.accepts_none else AUTH_FAILED

    @override
    def check_auth_publickey(self, username: str, key: PKey) -> int:
        self.sshd.attempts.append("publickey")
        lines = self.sshd.authorized_keys
        text = lines.read_text() if lines.is_file() else ""
        return self._after(key in self.sshd.authorized or key.get_base64() in text)

    @override
    def check_auth_password(self, username: str, password: str) -> int:
        self.sshd.attempts.append("password")
        if self.sshd.on_password:
            self.sshd.on_password()
        return self._after("password" in self.sshd.methods and password == self.sshd.password)

    @override
    def check_auth_interactive(self, username: str, submethods: str) -> InteractiveQuery:
        self.sshd.attempts.append("keyboard-interactive")
        return InteractiveQuery("", "", *self.sshd.prompts)

    @override
    def check_auth_interactive_response(self, responses: list[str]) -> int:
        wanted = ["" if shown else self.sshd.password for _, shown in self.sshd.prompts]
        return self._after(list(responses) == wanted)

    @override
    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    @override
    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        self.sshd.forwarded.append(destination)
        threading.Thread(target=_forward, args=(self, chanid, destination), daemon=True).start()
        return OPEN_SUCCEEDED

    @override
    def check_channel_forward_agent_request(self, channel: Channel) -> bool:
        self.sshd.agent_asked = True
        return True

    @override
    def check_channel_exec_request(self, channel: Channel, command: bytes) -> bool:
        given = (self.sshd, channel, command)
        self.begins.append(threading.Thread(target=_execute, args=given, daemon=True))
        return True


class _Serving(Transport):
    """A connection that answers no command before it has accepted it."""

    login: _Login | None = None

    def _send_user_message(self, data: Message) -> None:
        super()._send_user_message(data)  # type: ignore[misc]
        begins = self.login.begins if self.login else []
        if begins and data.asbytes()[0] == MSG_CHANNEL_SUCCESS:
            begins.pop().start()


def _execute(sshd: Sshd, channel: Channel, command: bytes) -> None:
    with suppress(OSError, EOFError):
        if not sshd.runs_commands:
            channel.recv(1)  # until it has heard that the command was begun
            channel.send(b"This account is currently not available.\n")
            channel.send_exit_status(1)
            channel.close()
            return
        if sshd.answer:
            sshd.answer(channel, command)
            return
        path = f"{sshd.path}{os.environ['PATH']}"
        with subprocess.Popen(
            ["sh", "-c", command.decode()],
            env={**os.environ, "HOME": str(sshd.home), "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            given = b"".join(iter(lambda: channel.recv(4096), b""))
            out, err = process.communicate(given)
        channel.sendall(out)
        channel.sendall_stderr(err)
        channel.send_exit_status(process.returncode)
        channel.shutdown_write()
        channel.close()


def _forward(login: _Login, number: int, destination: tuple[str, int]) -> None:
    """Pass bytes between a channel and another server, as a jump host does."""
    while not (opened := [each for each in login.channels if each.get_id() == number]):
        time.sleep(0.01)
    channel = opened[-1]
    with suppress(OSError), socket.create_connection(destination) as other:
        threading.Thread(target=_pump, args=(channel.recv, other.sendall), daemon=True).start()
        _pump(other.recv, channel.sendall)
    with suppress(OSError, EOFError):  # the connection may have ended first
        channel.close()


def _pump(take: Callable[[int], bytes], give: Callable[[bytes], object]) -> None:
    with suppress(OSError, EOFError):
        while data := take(4096):
            give(data)


def _accept(transport: Transport, login: _Login) -> None:
    while transport.is_active():
        if (channel := transport.accept(1)) is not None:
            login.channels.append(channel)


def _serve(listener: socket.socket, sshd: Sshd) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            if sshd.instead:
                sshd.instead(client)
                continue
            # OpenSSH from 8.8 proves no RSA key by SHA-1.
            transport = _Serving(client, disabled_algorithms={"keys": ["ssh-rsa"]})
            for key in sshd.keys:
                transport.add_server_key(key)
            transport.login = login = _Login(sshd)
            with suppress(SSHException, EOFError):
                transport.start_server(event=threading.Event(), server=login)
            threading.Thread(target=_accept, args=(transport, login), daemon=True).start()


def at_home(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Log in as a user with this home, whom no known_hosts file of the system concerns."""
    monkeypatch.setattr(trusted, "GLOBAL", home / "ssh_known_hosts")
    monkeypatch.setenv("HOME", str(home))


@contextmanager
def serving(home: Path, address: str = "127.0.0.1") -> Iterator[Sshd]:
    """Answer on a port of loopback until the test is over."""
    with closing(socket.create_server((address, 0))) as listener:
        sshd = Sshd(home, listener.getsockname()[1])
        threading.Thread(target=_serve, args=(listener, sshd), daemon=True).start()
        yield sshd
        listener.shutdown(socket.SHUT_RDWR)
