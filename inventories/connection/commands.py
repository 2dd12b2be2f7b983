"""pyinfra's commands and uploads with limits; no output of a node asks for a password here."""

from __future__ import annotations

import codecs
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import wraps
from typing import IO, Any
from weakref import WeakKeyDictionary

from paramiko import SFTPClient, Transport
from pyinfra import logger
from pyinfra.api import Host
from pyinfra.api import output as pyinfra_output
from pyinfra.api.command import StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors import ssh
from pyinfra.connectors.util import CommandOutput, OutputLine, make_unix_command_for_host
from typing_extensions import override

from gpu_node.inventories.connection.capped import LONGEST_SECONDS, Answer, run
from gpu_node.inventories.connection.transport import CONNECT_SECONDS, cut, within
from gpu_node.inventories.errors import worded

# How long a node may take none of an upload, and how long a session for one may take to begin.
_UPLOAD_IDLE_SECONDS, _UPLOAD_BEGIN_SECONDS = 120, 60
# What is printed of an answer: its first lines as they come, and its last ones.
_FIRST, _LAST = 60, 40
# Of each node, the longest time limit that a command ran into.
_missed: WeakKeyDictionary[Host, float] = WeakKeyDictionary()


def password_shown(arguments: Mapping[str, Any]) -> str:
    """Return what is wrong with a password in connector arguments, or in a host's data; else "".

    pyinfra writes it into the command line that it sends, and an askpass file prints it from there.
    """
    for key in ("_sudo_password", "_su_password"):
        if arguments.get(key):
            why = "all users of the node could read it in the list of its processes"
            then = "allow it in the node's sudoers with NOPASSWD, or log in as root"
            return worded(key, why, "sudo without a password", then)
    return ""


class Output(CommandOutput):
    """The lines of an answer; one object for each line would take ten times its bytes."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @property
    @override
    def combined_lines(self) -> list[OutputLine]:  # type: ignore[override]
        """The lines to print, in the order in which their ends came; pyinfra prints all of them."""
        ends = _Ends()
        first = [each for each in _ordered(self._answer.parts) if ends.is_first(*each)]
        return [OutputLine(stream, line) for stream, line in (*first, *ends.rest())]

    @property
    @override
    def stdout_lines(self) -> list[str]:
        return _lines(self._answer.of("stdout"))

    @property
    @override
    def stderr_lines(self) -> list[str]:
        return _lines(self._answer.of("stderr"))


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace").removesuffix("\n")
    return text.split("\n") if data else []


class _Lines:
    """Makes lines of the parts of a stream; what is no UTF-8 is marked."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun: list[str] = []

    def take(self, data: bytes, final: bool = False) -> list[str]:
        """Return the lines that end in `data`; `final` ends the last one."""
        first, *others = self._decoder.decode(data, final).split("\n")
        self._begun.append(first)
        if not others:
            return [line] if final and (line := "".join(self._begun)) else []
        *between, last = others
        ended = ["".join(self._begun), *between]
        self._begun = [last]
        return [*ended, last] if final and last else ended


def _ordered(parts: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, str]]:
    streams = {"stdout": _Lines(), "stderr": _Lines()}
    for name, data in parts:
        yield from ((name, line) for line in streams[name].take(data))
    for name, lines in streams.items():
        yield from ((name, line) for line in lines.take(b"", final=True))


class _Ends:
    """Keeps the last lines of an answer, and counts those between them and the first ones.

    A node may send a million lines, which would hide what the other nodes print.
    """

    def __init__(self) -> None:
        self._count = 0
        self._last: deque[tuple[str, str]] = deque(maxlen=_LAST)

    def is_first(self, stream: str, line: str) -> bool:
        """Whether a line is one of the first; else it may be one of the last."""
        self._count += 1
        if self._count <= _FIRST:
            return True
        self._last.append((stream, line))
        return False

    def rest(self) -> Iterator[tuple[str, str]]:
        """Yield the last lines, after one that has the number of those left out."""
        if more := max(self._count - _FIRST - len(self._last), 0):
            yield "stdout", f"... ({more} more lines)"
        yield from self._last


class _Shown:
    """Prints the lines of an answer as they end."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._streams = {"stdout": _Lines(), "stderr": _Lines()}
        self._ends = _Ends()

    def take(self, stream: str, data: bytes, final: bool = False) -> None:
        """Print the first lines as they end in a part."""
        for line in self._streams[stream].take(data, final):
            if self._ends.is_first(stream, line):
                self._print(stream, line)

    def end(self) -> None:
        """Print what has no end of line, and the last lines of many."""
        for stream in self._streams:
            self.take(stream, b"", final=True)
        for stream, line in self._ends.rest():
            self._print(stream, line)

    def _print(self, stream: str, line: str) -> None:
        shown = pyinfra_output.format_text(line, "red") if stream == "stderr" else line
        pyinfra_output.echo(f"{self._prefix}{shown}", err=True)


def run_shell_command(
    self: ssh.SSHConnector,
    command: StringCommand,
    print_output: bool = False,
    print_input: bool = False,
    **arguments: Any,
) -> tuple[bool, CommandOutput]:
    """Execute a command as pyinfra's connector does, whose arguments these are.

    Raises PyinfraError for a password among them.
    """
    if problem := password_shown(arguments):
        raise PyinfraError(problem)
    terminal = arguments.pop("_get_pty", False)
    seconds = arguments.pop("_timeout", None) or LONGEST_SECONDS
    stdin = _bytes(arguments.pop("_stdin", None))
    codes = arguments.pop("_success_exit_codes", None) or (0,)
    made = make_unix_command_for_host(self.state, self.host, command, **arguments)
    logger.debug("Running command on %s: (pty=%s) %s", self.host.name, terminal, made)
    if print_input:
        pyinfra_output.echo(f"{self.host.print_prefix}>>> {made}", err=True)
    shown = _Shown(self.host.print_prefix) if print_output else None
    try:
        answer = run(
            _transport(self),
            made.get_raw_value(),
            seconds,
            stdin,
            bool(terminal),
            shown.take if shown else lambda stream, data: None,
        )
    except TimeoutError:
        _missed[self.host] = max(seconds, _missed.get(self.host, 0))
        raise
    finally:
        if shown:
            shown.end()
    return answer.code in codes, Output(answer)


def missed(host: Host) -> float:
    """Return the longest time limit that a node ran into since this was last asked, else 0."""
    return _missed.pop(host, 0)


def _transport(connector: ssh.SSHConnector) -> Transport:
    transport = connector.client.get_transport() if connector.client else None
    if transport is None:
        raise OSError("not connected")
    return transport


def _bytes(stdin: Any) -> bytes:
    """Return what pyinfra writes of its `_stdin`: a line, lines or a file, each with its end."""
    if not stdin:
        return b""
    lines = stdin.readlines() if hasattr(stdin, "readlines") else stdin
    lines = lines if isinstance(lines, list | tuple) else [lines]
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).encode()


def _bounded_upload(original: Any) -> Any:
    @wraps(original)
    def put(self: ssh.SSHConnector, filename_or_io: str | IO[Any], remote_location: str) -> None:
        with within(_transport(self), _UPLOAD_BEGIN_SECONDS):
            sftp = self.get_file_transfer_connection()
        if isinstance(sftp, SFTPClient) and (channel := sftp.get_channel()) is not None:
            channel.settimeout(_UPLOAD_IDLE_SECONDS)
        original(self, filename_or_io, remote_location)

    return put


def _bounded_connect(original: Any) -> Any:
    @wraps(original)
    def connect(self: ssh.SSHConnector) -> None:
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            if self.client and (transport := self.client.get_transport()):
                cut(transport)

        timer = threading.Timer(CONNECT_SECONDS, expire)
        timer.daemon = True
        timer.start()
        try:
            original(self)
        except BaseException as error:
            # Its thread would read on.
            if self.client and (transport := self.client.get_transport()):
                cut(transport)
            if expired.is_set():
                reason = f"no login within {CONNECT_SECONDS} s"
                raise TimeoutError(reason) from error
            raise
        finally:
            timer.cancel()

    return connect


def install() -> None:
    """Have pyinfra read commands with limits; a second call changes nothing."""
    connector = ssh.SSHConnector
    if connector.run_shell_command is run_shell_command:
        return
    connector._connect = _bounded_connect(connector._connect)  # type: ignore[method-assign]
    connector.run_shell_command = run_shell_command  # type: ignore[method-assign]
    connector._put_file = _bounded_upload(connector._put_file)  # type: ignore[method-assign]
