"""Copies the workspace: from the controller, or from node to node, over verified SSH."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gevent.lock import BoundedSemaphore
from paramiko import SSHException
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.exceptions import FactProcessError

from gpu_node.deploy.engine.run import Slot, of_operation, run_of
from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.files.replace import backups
from gpu_node.deploy.workspace.copy_side import local_sender, receiver, sender
from gpu_node.deploy.workspace.progress import bar
from gpu_node.deploy.workspace.rsync_run import (
    IDLE_SECONDS,
    Outcome,
    follow,
    locally,
    on_node,
    seconds_for,
)
from gpu_node.deploy.workspace.senders import Sender, by_one, senders
from gpu_node.facts.ask.execute import NoAnswer, execute
from gpu_node.facts.ask.jump_hosts import by_jump_hosts
from gpu_node.facts.ask.via.login import named
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import CONTROLLER, request_of
from gpu_node.facts.ssh.options import STRICT
from gpu_node.facts.workspace.state import PARTIAL, FilesFact, excluding
from gpu_node.inventories.escape import visible
from gpu_node.inventories.versions import numbers

# The parallel copies from a node or the controller: each copy needs a session of the connection, of
# which sshd allows ten, and all share one line.
_AT_ONCE = 4
_TURNS: Slot[dict[str, BoundedSemaphore]] = Slot(dict)
_HAS_PROGRESS = (3, 1)
# The beginning of our own scripts' messages.
_OURS = "gpu-node: "
# Instead of rsync's code, if a job uses the node.
_REFUSED = -2
# Files disappeared meanwhile, as those of a running job do.
VANISHED = 24
# --max-delete stopped it.
MORE_TO_DELETE = 25
# rsync(1), EXIT VALUES: socket or stream broke, a signal, a time limit; 255 is ssh's own. A code
# below 0 is from a signal, or from a connection that broke without a code.
_INTERRUPTED = frozenset({10, 12, 20, 30, 35, 255})
# The message of a side if its other end disappeared.
_RECEIVED = re.compile(r"\((\d+) bytes received so far\)")
# What copy_side.sh prints first.
AS = "gpu-node as "
_DENIED = re.compile(r"Permission denied \(13\)|Operation not permitted \(1\)")
# A program of a copied tree runs only as the user who starts it.
PLAIN = "--chmod=Fug-s"


@dataclass(frozen=True)
class Removal:
    """What a copy may destroy: it deletes at most `most` entries, and keeps them in `backup`.

    `backup` is a folder of the node, or empty: overwritten files are kept there, too. `at_once`: a
    file replaces a folder, which must be deleted before the file is sent. `owner` and `allow` are
    for workspace.sh, which looks for a running job right before anything is deleted. `checksum`:
    files of equal size and time are compared by their content.
    """

    most: int = 0
    backup: str = ""
    at_once: bool = False
    owner: str = ""
    allow: str = "yes"
    checksum: bool = False


def command(excludes: Sequence[str], version: str, removal: Removal | None = None) -> list[str]:
    """Return rsync with its options; folders' times are left out, as they change with each file.

    Files belong to the user who receives them, and get neither setuid nor setgid. If more would be
    deleted than was reported, the limit stops rsync.
    """
    removal = removal or Removal()
    words = ["rsync", "-rlpt", PLAIN, "--omit-dir-times", f"--partial-dir={PARTIAL}"]
    words += [f"--timeout={IDLE_SECONDS}", *excluding(excludes)]
    words += ["--checksum"] if removal.checksum else []
    words += ["--backup", f"--backup-dir={removal.backup}"] if removal.backup else []
    if removal.most:
        when = "--delete-before" if removal.at_once else "--delete-delay"
        words += [when, f"--max-delete={removal.most}"]
    return [*words, *progress(version)]


def progress(version: str) -> list[str]:
    """Return the option that makes rsync print its progress; rsync before 3.1 has none."""
    return ["--info=progress2"] if numbers(version) >= _HAS_PROGRESS else []


def place(peer: Peer, user: str | None, path: str) -> str:
    """Return a folder of a node in rsync's form; an IPv6 address is in brackets."""
    address = f"[{peer.address}]" if ":" in peer.address else peer.address
    return f"{user}@{address}:{path}/" if user else f"{address}:{path}/"


def ssh_to(data: Mapping[str, Any], address: str) -> list[str]:
    """Return ssh as pyinfra reaches a host, also by the jump hosts of ssh's configuration.

    ValueError: there is no way by these.
    """
    config = data.get("ssh_config_file") or ""
    words = ["ssh", *STRICT, "-o", "ServerAliveInterval=15", *(("-F", config) if config else ())]
    words += named(data)
    return [*words, *by_jump_hosts(words, address, config)]


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
    relayed: str = "",
) -> bool:
    """Copy the workspace to a host; what an interrupted copy has sent is not sent again.

    Between nodes the training user of the source sends it to that of the host. Everything is sent
    before anything is deleted, and a job that has started meanwhile prevents the deletion.

    `relayed` is the digest of the source's list: each node that has the same list then sends it to
    others.
    """
    passes = [(removal, total)]
    if removal.most and not removal.at_once:
        passes = [(replace(removal, most=0), total), (replace(removal, checksum=False), 0)]

    def copy(sender: Sender) -> bool:
        given = (state, host, sender.node, sender.folder, path, excludes, version, peer)
        return all(_pass(*given, size, each) for each, size in passes)

    first = Sender(source, origin)
    if not relayed:
        return copy(first)
    known = senders(state, first, relayed)
    done = by_one(known, host, path, copy)
    if done and _has(state, host, path, excludes, relayed):
        known.add(Sender(host.name, path))
    return done


def _has(state: State, host: Host, path: str, excludes: Sequence[str], digest: str) -> bool:
    """Whether a host's files are those of the source, and no others: only these are sent on."""
    fact = FilesFact()
    command = fact.command(path, excludes)
    try:
        _, output = execute(host.connector, command, IDLE_SECONDS, of_operation(state, host))
        return bool(fact.process(output.stdout_lines)["digest"] == digest)
    except (NoAnswer, FactProcessError):
        return False


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
    user = (data.get("ssh_user") or "") if is_local else request_of(data).user
    to = place(target, user, path)
    try:
        near = ssh_to(data, target.address) if is_local else []
    except (OSError, ValueError) as error:
        logger.error(f"{host.print_prefix}{path}: nothing was sent: {visible(str(error))}")
        return False
    ssh = near or ["ssh", *STRICT, "-p", str(target.port)]
    argv = command(excludes, version, removal) + receiver(host.name, data, user, path, excludes)
    argv += ["-e", shlex.join(ssh), f"{origin}/", to]
    if is_local:
        argv = local_sender(origin, argv, excludes)
    else:
        argv = sender(account(state, source), origin, argv, excludes)
    ended = transfer(
        state, host, source, argv, total, lambda: _may_start(state, host, path, removal)
    )
    code, messages = ended.code, ended.messages
    if not is_whole(code) and (why := refusal(messages)):
        logger.error(f"{host.print_prefix}{visible(why)}")
    elif not is_whole(code) and code != _REFUSED:
        why = visible("; ".join([line for line in messages if not line.startswith(AS)][-3:]))
        by = account(state, source) or "the SSH user" if not is_local else ""
        login = f"{shlex.join(ssh)} {f'{user}@' if user and not near else ''}{target.address}"
        then = next_step(ended, f"{by} of {source}" if by else "", user or "the SSH user", login)
        logger.error(
            f"{host.print_prefix}{path}: rsync from {source} ended with {code}: {why}; {then}"
        )
    return is_whole(code)


def refusal(messages: Sequence[str]) -> str:
    """Return why a side of a copy did not begin, and what to do; empty if it began."""
    return next((line.removeprefix(_OURS) for line in messages if line.startswith(_OURS)), "")


def _may_start(state: State, host: Host, path: str, removal: Removal) -> bool:
    """Whether nothing must be deleted, or no job of the node uses a GPU now."""
    if not removal.most or removal.allow == "yes":
        return True
    asked = {"owner": removal.owner, "allow": removal.allow, "backup": removal.backup}
    command = script("workspace", path=path, **asked, backups=backups())
    done, output = execute(host.connector, command, IDLE_SECONDS, of_operation(state, host))
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
) -> Outcome:
    """Run rsync on the source, with a bar of so many bytes, and return how it ended.

    `may_start` is asked when the source's other copies leave room for this one.
    """
    run = run_of(state)
    turn = run.of(_TURNS).setdefault(source, BoundedSemaphore(_AT_ONCE))
    with turn, bar(run, host.name, total) as advance:
        if not may_start():
            return Outcome(_REFUSED)
        seconds, ended = seconds_for(total), Outcome()
        try:
            lines = (
                locally(argv, seconds)
                if source == CONTROLLER
                else on_node(state, source, argv, seconds)
            )
            follow(lines, advance, ended)
        except (OSError, SSHException, EOFError) as error:
            ended.add(str(error) or type(error).__name__)
    return ended


def account(state: State, source: str) -> str:
    """Return the user who copies on a node; empty for the SSH user."""
    return request_of(state.inventory.get_host(source).data.dict()).user


def is_whole(code: int) -> bool:
    """Whether all files that are still there were copied."""
    return code in (0, VANISHED)


def next_step(ended: Outcome, sender: str, receiver: str, login: str) -> str:
    """Return what a failed copy has left, and what to do.

    `sender` is a user of a node, or empty for who runs the controller; `receiver` is the user at
    the other end, to which the ssh command `login` leads.
    """
    code, text = ended.code, "\n".join(ended.messages)
    received = [int(count) for count in _RECEIVED.findall(text)]
    if code < 0 or code in _INTERRUPTED:
        if ended.has_sent or any(received):
            return "what was sent stays, and the next run sends the rest"
        where = f"as {sender}" if sender else "on this machine"
        return f"nothing was sent: check that this command works {where}: {login} rsync --version"
    if code == MORE_TO_DELETE:
        return "rsync would delete more than the report lists; the rest stays: check it, run again"
    if _DENIED.search(text):
        # As whom root received: the folder's owner.
        ours = (line.removeprefix(AS) for line in ended.messages if line.startswith(AS))
        owner = next(ours, "")
        repair = f"give it to {owner} (chown -R)" if owner else "correct owner or mode (ls -ld)"
        return (
            f"what was sent stays, the rest cannot be sent: {sender or 'you'} cannot read "
            f"it there, or {owner or receiver} cannot write it here; {repair}, and run again"
        )
    return "what was sent stays; correct what the error reports, and run again"
