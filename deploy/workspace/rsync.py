"""Copying the workspace: from the controller, or from one node to another, over verified SSH."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gevent.lock import BoundedSemaphore
from paramiko import SSHException
from pyinfra import logger
from pyinfra.api import Host, State

from deploy.arguments import of_operation
from deploy.progress import bar
from deploy.rsync_codes import Copier, is_whole, way_on
from deploy.scripts import script
from drift.report.visible import visible
from facts.cluster import Peer
from facts.mesh import AS_USER
from facts.named import CONTROLLER, named_by
from facts.workspace import PARTIAL, excluding

# What a node or the controller sends at a time: each copy takes a session of the connection, of
# which sshd allows ten, and all share one line.
_AT_ONCE = 4
_sending: dict[str, BoundedSemaphore] = {}
# How long either side waits for a byte of the other's.
IDLE_SECONDS = 600
_HAS_PROGRESS = (3, 1)
# Progress has no newline at its end: what goes wrong then is told behind it, on the same line.
_PROGRESS = re.compile(
    r"\s*([\d,.]+)\s+\d+%\s+\S+/s\s+[\d:?]+(?:\s+\(xfe?r#[^)]*\))?(.*)", re.DOTALL
)
# In the place of rsync's code where the way to the source broke, or a job uses the node.
_BROKEN, _REFUSED = -1, -2
# A host key that is not known, or another one, ends the copy.
STRICT = ("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes")


@dataclass(frozen=True)
class Removal:
    """What a copy may destroy: it deletes `most` entries at most, and keeps them in `backup`.

    `backup` is a folder of the node, or empty: what is overwritten is put there, too. `at_once`: a
    file comes in the place of a folder, which takes deleting before it is sent. `owner` and `allow`
    are for workspace.sh, which looks for a running job right before anything is deleted.
    """

    most: int = 0
    backup: str = ""
    at_once: bool = False
    owner: str = ""
    allow: str = "yes"


def command(
    excludes: Sequence[str], owners: bool, version: str, removal: Removal | None = None
) -> list[str]:
    """Return rsync with its options; folders' times are left out, as they change with each file.

    Where more has to be deleted than was reported, the limit stops rsync.
    """
    removal = removal or Removal()
    found = ["rsync", "-rlpt", "--omit-dir-times", f"--partial-dir={PARTIAL}"]
    found += [f"--timeout={IDLE_SECONDS}", *excluding(excludes)]
    found += ["--owner", "--group"] if owners else []
    found += ["--backup", f"--backup-dir={removal.backup}"] if removal.backup else []
    if removal.most:
        when = "--delete-before" if removal.at_once else "--delete-delay"
        found += [when, f"--max-delete={removal.most}"]
    return [*found, *progress(version)]


def progress(version: str) -> list[str]:
    """Return the option by which an rsync tells how far it is; one before 3.1 has none."""
    numbers = tuple(int(each) for each in re.findall(r"\d+", version)[:2])
    return ["--info=progress2"] if numbers >= _HAS_PROGRESS else []


def place(peer: Peer, user: str | None, path: str) -> str:
    """Return a folder of a node as rsync takes it; an IPv6 address stands in brackets."""
    address = f"[{peer.address}]" if ":" in peer.address else peer.address
    return f"{user}@{address}:{path}/" if user else f"{address}:{path}/"


def ssh_of(data: Mapping[str, Any]) -> list[str]:
    """Return ssh as the controller reaches a host by pyinfra: same key, port and known hosts."""
    words = ["ssh", *STRICT, "-o", "ServerAliveInterval=15"]
    if data.get("ssh_config_file"):
        words += ["-F", data["ssh_config_file"]]
    if data.get("ssh_known_hosts_file"):
        words += ["-o", f'UserKnownHostsFile="{data["ssh_known_hosts_file"]}"']
    if data.get("ssh_key"):
        words += ["-o", "IdentitiesOnly=yes", "-i", data["ssh_key"]]
    return [*words, "-p", str(data["ssh_port"])] if data.get("ssh_port") else words


def another_user(host: Host) -> str:
    """Return who trains on a host, where that is not the SSH user; else nothing.

    The keys with which nodes log in to each other are that user's.
    """
    data = host.data.dict()
    user = named_by(data).user
    return "" if user == (data.get("ssh_user") or "") else user


def send(
    state: State,
    host: Host,
    source: str,
    origin: str,
    path: str,
    excludes: Sequence[str],
    version: str,
    peer: Mapping[str, Any],
    total: int,
    removal: Removal,
) -> bool:
    """Copy the workspace to a host; what a copy that was cut off has sent is not sent again.

    From a node it is sent by its training user to this one's. All is sent before anything is
    deleted, and a job that has started meanwhile stops that.
    """
    given = (state, host, source, origin, path, excludes, version, peer)
    passes = [(removal, total)]
    if removal.most and not removal.at_once:
        passes = [(replace(removal, most=0), total), (removal, 0)]
    return all(_pass(*given, size, each) for each, size in passes)


def _pass(
    state: State,
    host: Host,
    source: str,
    origin: str,
    path: str,
    excludes: Sequence[str],
    version: str,
    peer: Mapping[str, Any],
    total: int,
    removal: Removal,
) -> bool:
    """Run rsync once, and report how it failed."""
    data, target = host.data.dict(), Peer.model_validate(peer)
    is_local = source == CONTROLLER
    user = (data.get("ssh_user") or "") if is_local else named_by(data).user
    to = place(target, user, path)
    ssh = ssh_of(data) if is_local else ["ssh", *STRICT, "-p", str(target.port)]
    argv = command(excludes, not is_local, version, removal)
    argv += ["-e", shlex.join(ssh), f"{origin}/", to]
    code, said, sent = transfer(
        state, host, source, argv, total, lambda: _may_start(state, host, path, removal)
    )
    if not is_whole(code) and code != _REFUSED:
        why = visible("; ".join(said[-3:]))
        login = f"{user}@{target.address}" if user else target.address
        copier = Copier(
            source, _sender(state, source), user or "the SSH user", f"{shlex.join(ssh)} {login}"
        )
        logger.error(
            f"{host.print_prefix}{path}: rsync from {source} ended with {code}: {why}; "
            f"{way_on(code, said, sent, copier)}"
        )
    return is_whole(code)


def _may_start(state: State, host: Host, path: str, removal: Removal) -> bool:
    """Whether nothing is to be deleted, or no job of the node uses a GPU by now."""
    if not removal.most or removal.allow == "yes":
        return True
    asked = {"owner": removal.owner, "allow": removal.allow, "backup": removal.backup}
    done, output = host.run_shell_command(
        script("workspace", path=path, **asked), **of_operation(state, host, IDLE_SECONDS)
    )
    if not done:
        ended = "nothing was deleted" if removal.at_once else "sent, and nothing was deleted"
        logger.error(f"{host.print_prefix}{path}: {ended}: {visible(output.stderr)}")
    return done


def transfer(
    state: State,
    host: Host,
    source: str,
    argv: list[str],
    total: int,
    may_start: Callable[[], bool] = lambda: True,
) -> tuple[int, list[str], bool]:
    """Run rsync on the source, with a bar of so many bytes.

    `may_start` is asked when the source's other copies leave room for this one. Return its code,
    its messages, and whether anything was sent.
    """
    said: list[str] = []
    sent: list[int] = []
    with _sending.setdefault(source, BoundedSemaphore(_AT_ONCE)), bar(host.name, total) as advance:
        if not may_start():
            return _REFUSED, [], False
        try:
            lines = _locally(argv) if source == CONTROLLER else _on(state, source, argv)
            code = _follow(lines, advance, said, sent)
        except (OSError, SSHException, EOFError) as error:
            code = _BROKEN
            said.append(str(error) or type(error).__name__)
    return code, said, any(sent)


def answer(state: State, source: str, argv: list[str]) -> list[str]:
    """Return the lines that a command on a node says; raises OSError where it fails."""
    try:
        *lines, code = _on(state, source, argv)
    except (SSHException, EOFError) as error:
        raise OSError(str(error) or type(error).__name__) from error
    said = [str(line) for line in lines if str(line).strip()]
    if code != 0:
        raise OSError(said[-1] if said else f"{argv[0]} ended with {code}")
    return said


def _sender(state: State, source: str) -> str:
    """Return the user who copies on a node; nothing where the controller does."""
    if source == CONTROLLER:
        return ""
    return named_by(state.inventory.get_host(source).data.dict()).user or "the SSH user"


def _follow(lines: Iterator[str | int], advance: Any, said: list[str], sent: list[int]) -> int:
    """Hand rsync's progress on, gather what else it says, and return its code, which comes last."""
    for line in lines:
        if isinstance(line, int):
            return line
        progress = _PROGRESS.match(line)
        if progress:
            sent.append(int(re.sub(r"\D", "", progress[1])))
            advance(sent[-1])
        if told := (progress[2] if progress else line).strip():
            said.append(told)
    return _BROKEN


def _locally(argv: list[str]) -> Iterator[str | int]:
    """Run rsync on the controller; its lines, then its code. It ends when nobody reads on."""
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"},
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            assert process.stdout is not None
            yield from process.stdout  # a carriage return ends a line, too
            yield process.wait()
        finally:
            process.terminate()


def as_trainer(user: str, argv: Sequence[str]) -> str:
    """Return the command that runs `argv` as the training user, where that is `another_user`."""
    words = f"LC_ALL=C {shlex.join(argv)}"
    if not user:
        return words
    # Where the SSH user is at home the other one may not be.
    script = f"user={shlex.quote(user)}\ncd /\n{AS_USER}as_user {shlex.quote(words)}"
    return f"sh -c {shlex.quote(script)}"


def _on(state: State, source: str, argv: list[str]) -> Iterator[str | int]:
    """Run rsync on the source, as who trains there, over the connection that is open."""
    host = state.inventory.get_host(source)
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client else None
    if transport is None:
        raise OSError(f"{source} is not connected")
    channel = transport.open_session()
    try:
        channel.set_combine_stderr(True)
        channel.exec_command(as_trainer(another_user(host), argv))
        rest = ""
        while data := channel.recv(65536):
            *lines, rest = re.split(r"[\r\n]", rest + data.decode("utf-8", "replace"))
            yield from lines
        yield rest
        yield int(channel.recv_exit_status())
    finally:
        channel.close()
