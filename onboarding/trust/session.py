"""A session with a server that need not be in the inventory: scripts run as its user or as root."""

from __future__ import annotations

import shlex
import time
from contextlib import closing
from dataclasses import dataclass

from paramiko import Channel, SSHException, Transport
from typing_extensions import Self

from drift.report.visible import visible
from facts.sudo import why_refused
from onboarding.contact import ContactError, Server

ROOT = "root"
_SHORT_SECONDS = 20
_PAUSE = 0.02
_MOST_BYTES = 16 * 1024 * 1024
_CHUNK = 32768
_GREETING = "gpu-node: a session"


@dataclass(frozen=True)
class Result:
    """How a script ended; undecodable bytes of its output are half surrogates."""

    code: int
    out: list[str]
    err: str


class Session:
    """A login; `by` is "key" or "password". Close it, or use it as a context."""

    def __init__(self, server: Server, transport: Transport, by: str) -> None:
        self.server = server
        self.by = by
        self._transport = transport

    def run(self, script: str, seconds: int, stdin: str = "") -> Result:
        """Run a script as sh of the user, without a terminal.

        Raises ContactError where the connection breaks, or the script does not end in time or
        says too much.
        """
        return self._run(f"sh -c {shlex.quote(script)}", seconds, stdin)

    def as_root(self, script: str, seconds: int, stdin: str = "") -> Result:
        """Run a script as sh of root, by sudo without a password where the user is another."""
        return self._run(f"{self._sudo}sh -c {shlex.quote(script)}", seconds, stdin)

    @property
    def _sudo(self) -> str:
        return "" if self.server.user == ROOT else "sudo -n "

    def sudo_refusal(self) -> str:
        """Return why the user cannot become root; empty where it can."""
        done = self._run(f"env LC_ALL=C {self._sudo}sh -c 'id -u'", _SHORT_SECONDS, "")
        if done.code == 0 and done.out[-1:] == ["0"]:
            return ""
        refused = why_refused("\n".join([*done.out, done.err]), self.server.user)
        return visible(
            f"{self.server.user} cannot become root ({refused.words}): {refused.reason}; "
            f"{refused.fix}"
        )

    def can_become_root(self) -> bool:
        """Whether as_root works."""
        return not self.sudo_refusal()

    def close(self) -> None:
        """End the session."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def greet(self) -> None:
        """Raise ContactError unless commands run: the shell may be none, the password expired."""
        done = self.run(f"echo '{_GREETING}'", _SHORT_SECONDS)
        if done.out[-1:] != [_GREETING]:
            said = visible(" ".join([*done.out, done.err]).strip()) or "nothing"
            raise ContactError(
                f"{self.server.login} lets us in and runs no commands; it says: {said}; see the "
                "account's shell, and whether its password has expired"
            )

    def _run(self, command: str, seconds: int, stdin: str) -> Result:
        try:
            channel = self._transport.open_session(timeout=seconds)
            with closing(channel):
                channel.settimeout(seconds)
                channel.exec_command(command)
                out, err = _exchanged(channel, stdin.encode("utf-8"), time.monotonic() + seconds)
                code = channel.recv_exit_status()
        except TimeoutError:
            problem = f"did not answer within {seconds} s"
        except OverflowError:
            problem = f"said more than {_MOST_BYTES // 1024 // 1024} MiB"
        except (SSHException, OSError, EOFError) as error:
            problem = f"broke the connection ({str(error) or type(error).__name__})"
        else:
            if self._transport.is_active() or code >= 0:
                return Result(code, _lines(out), err.decode("utf-8", "surrogateescape").strip())
            problem = "broke the connection in the middle of a command"
        raise ContactError(f"{self.server.login} {problem}; try again")


def _lines(out: bytes) -> list[str]:
    text = out.decode("utf-8", "surrogateescape").removesuffix("\n")
    return text.split("\n") if text else []


def _exchanged(channel: Channel, stdin: bytes, end: float) -> tuple[bytes, bytes]:
    """Say `stdin`, and return what comes back until the command ends.

    Raises TimeoutError, and OverflowError where it does not stop.
    """
    out, err = bytearray(), bytearray()
    told = False
    while True:
        ended = channel.exit_status_ready() and (channel.eof_received or channel.closed)
        moved = False
        if stdin and not channel.closed and channel.send_ready():
            stdin = stdin[channel.send(stdin[:_CHUNK]) :]
            moved = True
        if not stdin and not told:
            channel.shutdown_write()
            told = True
        for ready, receive, into in (
            (channel.recv_ready, channel.recv, out),
            (channel.recv_stderr_ready, channel.recv_stderr, err),
        ):
            while ready():
                into += receive(_CHUNK)
                moved = True
                if len(into) > _MOST_BYTES:
                    raise OverflowError
        if ended:
            return bytes(out), bytes(err)
        if time.monotonic() > end:
            raise TimeoutError
        if not moved:
            time.sleep(_PAUSE)
