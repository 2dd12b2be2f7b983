"""First contact with a server: its host key is confirmed, or given beforehand, and then pinned."""

import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paramiko import PKey, SSHException

from gpu_node.facts.ssh.state import fingerprint
from gpu_node.inventories.connection.known_hosts import (
    keys_of,
    lookups,
    read,
    repinned,
    stale,
    without,
    write,
)
from gpu_node.inventories.connection.offered import SECONDS, UNFINISHED, NoHostKey
from gpu_node.inventories.connection.offered import offered as offered_at
from gpu_node.inventories.connection.refused_keys import look
from gpu_node.inventories.connection.ssh_config import BadConfig
from gpu_node.inventories.connection.trusted import GLOBAL, revoked_keys
from gpu_node.inventories.errors import did_you_mean, reason, shown, worded
from gpu_node.onboarding.errors import ContactError, Stopped

ON_ITS_CONSOLE = "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
# A folder for known_hosts that was not there: ~/.ssh as ssh itself makes it.
_FOLDER_MODE = 0o700


@dataclass(frozen=True)
class Server:
    """A server, in the inventory or not yet, and the way to it.

    `key` is the controller's private key; None stands for those of its agent and of ~/.ssh.
    """

    name: str
    address: str
    port: int
    user: str
    known_hosts: Path
    key: Path | None = None

    @property
    def at(self) -> str:
        """Address and port, for people."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}"

    @property
    def login(self) -> str:
        """User, address and port, for people."""
        return f"{self.user}@{self.at}"

    @property
    def lookups(self) -> tuple[str, ...]:
        """What it goes by in known_hosts; a connection looks for the first of them."""
        return lookups(self.name, self.address, self.port)

    @property
    def data(self) -> dict[str, Any]:
        """The way to it as pyinfra's host data."""
        return {"ssh_hostname": self.address, "ssh_port": self.port}


def offered(server: Server) -> list[PKey]:
    """Return the host keys that a server proves to have, ed25519 first.

    Raises ContactError where the server does not answer, or is not an sshd.
    """
    try:
        return offered_at(server.data)
    except NoHostKey as error:
        problem = unreachable(server, error)
    raise ContactError(problem)


def unreachable(server: Server, error: BaseException, seconds: int = SECONDS) -> str:
    """Say why no connection came about, and where to look; `error` may stand for another one.

    `seconds` are what sshd was given to say something.
    """
    cause = error.__cause__ or error
    if isinstance(cause, BadConfig):
        return str(cause)
    if _is_silence(cause):
        return (
            f"found no answer of the sshd at {server.at} within {seconds} s (it accepts "
            "connections); next: see its console: is the machine frozen, or too busy?"
        )
    # paramiko has one error for a greeting that is invalid, missing or incomplete.
    if isinstance(cause, SSHException) and isinstance(cause.__context__, OSError | EOFError):
        cause = cause.__context__
    if isinstance(cause, socket.gaierror):
        why, allowed = "this machine cannot resolve it", "an address, or a name that resolves"
        return f"address: {worded(shown(server.address), why, allowed)}"
    if isinstance(cause, ConnectionRefusedError):
        return f"found connection refused at {server.at}; next: {look(cause, server.port)}"
    if isinstance(cause, EOFError | ConnectionError):
        return (
            f"found a connection to {server.at} that was closed before a login (it is not sshd, "
            "has too many connections, or blocks this machine: MaxStartups, fail2ban); next: see "
            "its log"
        )
    if isinstance(cause, TimeoutError):
        return (
            f"found no answer at {server.at} within {SECONDS} s ({_reason(cause)}); next: "
            f"{look(cause, server.port)}"
        )
    if isinstance(cause, OSError):
        return f"found no way to {server.at} ({_reason(cause)}); next: {look(cause)}"
    return f"found no SSH at {server.at} ({_reason(cause)}); next: is it the port of an sshd?"


def _is_silence(error: BaseException) -> bool:
    """Whether the connection was accepted, and the handshake did not end in time."""
    is_late = isinstance(error.__context__, TimeoutError) or str(error) == UNFINISHED
    return isinstance(error, SSHException) and is_late


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def pinned(server: Server) -> list[str]:
    """Return the keys, as `kind key`, that known_hosts has for a server's address and name."""
    text = known_in(server.known_hosts)
    return list(dict.fromkeys(key for lookup in server.lookups for key in keys_of(text, lookup)))


def pinned_newly(server: Server, key: str, keys: Sequence[PKey]) -> list[str]:
    """Return by which names known_hosts has a key of a server only after `pin`."""
    text = known_in(server.known_hosts)
    new = repinned(text, server.lookups, key, texts(keys))
    return [
        lookup for lookup in server.lookups if keys_of(new, lookup) and not keys_of(text, lookup)
    ]


def accepted(
    server: Server, keys: Sequence[PKey], own: str | None, given: Sequence[str]
) -> str | None:
    """Return the fingerprint that a server's key must have; None where none is given.

    `own` was given for this server alone, `given` are those without a name. No other key is
    accepted then, not even a pinned one. Raises ContactError where none of them is offered.
    """
    allowed = [own] if own is not None else given
    offers = [key.fingerprint for key in keys]
    if allowed and not set(allowed) & set(offers):
        raise ContactError(_not_offered(server, texts(keys), allowed[0]))
    return next((each for each in allowed if each in offers), None)


def by_server(words: Iterable[str], names: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Return the fingerprints that are given for a server, by its name, and those without a name.

    With several servers each must be given for one, or each server could have the key of any other.
    Raises Stopped with all that is wrong.
    """
    own: dict[str, str] = {}
    nameless, problems = [], []
    for word in words:
        name, equals, digest = word.rpartition("=")
        if not equals:
            nameless.append(digest)
        elif name not in names:
            why = f"no such server{did_you_mean(name, names)}"
            problems.append(worded(shown(name), why, ", ".join(names)))
        elif name in own:
            problems.append(worded(f"{name} twice", "", "one key a server"))
        else:
            own[name] = digest
    if nameless and len(names) > 1:
        several = "NAME=SHA256:... for each of several servers"
        problems.append(worded(nameless[0], "no server's name", several))
    if problems:
        raise Stopped("\n".join(f"--accept-host-key: {problem}" for problem in problems))
    return own, nameless


def choose(
    server: Server,
    keys: Sequence[PKey],
    accept: str | None,
    confirm: Callable[[str], bool] | None,
) -> str:
    """Return the host key to trust, as `kind key`, out of those that are offered.

    It is the one with the fingerprint `accept`; else a pinned one, without a question; else the
    first one, if `confirm` returns True for the question. Without a terminal
    `confirm` is None. A key that known_hosts revokes for the server is as good as not offered.
    Raises ContactError where no key is confirmed.
    """
    offers = _unrevoked(server, texts(keys), accept)
    for key in offers:
        if digest(key) == accept:
            return key
    known = pinned(server)
    same = [key for key in offers if key in known]
    changed = stale(known, offers)
    if same and not changed:
        return same[0]
    if accept is not None:
        raise ContactError(_not_offered(server, offers, accept))
    if known:
        raise ContactError(_changed(server, changed or known, offers))
    if confirm is None:
        raise ContactError(
            f"found a host key of {server.at} that is not known ({listed(offers)}); next: compare "
            f"it {_with_its_console(server, offers[0])}"
        )
    if not confirm(_question(server, offers)):
        found = f"no confirmation of the host key of {server.at}"
        raise ContactError(worded(found, "nothing was changed", "y"))
    return offers[0]


def _unrevoked(server: Server, offers: Sequence[str], accept: str | None) -> list[str]:
    """The keys that are not revoked; raises ContactError where none is left or one is accepted."""
    barred = barred_in(known_in(server.known_hosts), server.lookups)
    left = [key for key in offers if key not in barred]
    out = [key for key in offers if key in barred]
    if out and (not left or accept in {digest(key) for key in out}):
        raise ContactError(
            f"found a host key of {server.at} that is revoked by a @revoked line of "
            f"{server.known_hosts} ({listed(out)}: another machine may have that key; nothing was "
            "changed); next: create a new one on the server (ssh-keygen -A, after removing the old "
            "file), or remove the line if it is wrong"
        )
    return left


def barred_in(text: str, names: Collection[str]) -> list[str]:
    """Return the keys that a known_hosts text, or the system's file, revokes for names."""
    try:
        return revoked_keys(text, names)
    except OSError as error:
        raise ContactError(f"{GLOBAL}: {worded(reason(error), 'cannot be read')}") from None


def _not_offered(server: Server, offers: Sequence[str], accept: str) -> str:
    return (
        f"found {accept} (not one of the host keys offered at {server.at}; nothing was changed); "
        f"allowed: {listed(offers)}; next: {ON_ITS_CONSOLE} shows on its console which it is"
    )


def _with_its_console(server: Server, key: str) -> str:
    option = as_option(server, key)
    return f"with what {ON_ITS_CONSOLE} shows on its console, then give it: {option}"


def _changed(server: Server, known: Sequence[str], offers: Sequence[str]) -> str:
    command = f"gpu-node host-key INVENTORY {server.name} --accept"
    return (
        f"found a host key of {server.at} that has changed (pinned {listed(known)} in "
        f"{server.known_hosts}, offered {listed(offers)}); next: if it was reinstalled, compare "
        f"{_with_its_console(server, offers[0])}, or for a node of the inventory: {command} "
        f"{digest(offers[0])}"
    )


def as_option(server: Server, key: str) -> str:
    """Return the option that gives a server's key, `kind key`."""
    return f"--accept-host-key {server.name}={digest(key)}"


def _question(server: Server, offers: Sequence[str]) -> str:
    lines = [f"{server.at} is not known yet. It offers:"]
    lines += [f"  {fingerprint(key)}" for key in offers]
    lines += [f"Compare with what its own console shows: {ON_ITS_CONSOLE}", "Is it the same?"]
    return "\n".join(lines)


def texts(keys: Iterable[PKey]) -> list[str]:
    """Return keys as known_hosts has them: `kind key`."""
    return [f"{key.get_name()} {key.get_base64()}" for key in keys]


def listed(keys: Iterable[str]) -> str:
    """Return the kinds and fingerprints of keys."""
    return ", ".join(fingerprint(key) for key in keys)


def digest(key: str) -> str:
    """Return the fingerprint of a key, `kind key`, alone."""
    return fingerprint(key).split()[1]


def pin(server: Server, key: str, keys: Sequence[PKey]) -> bool:
    """Pin a host key, `kind key`, for a server's address; return whether the file changed.

    Of the keys that were pinned those among `keys`, which are offered, stay. A file that is not
    there is made, with its folder. Raises ContactError where it cannot be written.
    """
    text = known_in(server.known_hosts)
    return written(server.known_hosts, text, repinned(text, server.lookups, key, texts(keys)))


def unpin(known_hosts: Path, *names: str) -> bool:
    """Forget a server's host keys; return whether the file changed.

    `names` are what it goes by there, as Server.lookups says; lines of others stay byte for byte.
    Raises ContactError where the file cannot be written.
    """
    text = known_in(known_hosts)
    return written(known_hosts, text, without(text, names))


def known_in(file: Path) -> str:
    """Return a known_hosts file; ContactError where it cannot be read."""
    try:
        return read(file)
    except OSError as error:
        raise ContactError(f"{file}: {worded(reason(error), 'cannot be read')}") from None


def written(file: Path, text: str, new: str) -> bool:
    """Replace a known_hosts file, made with its folder; return whether that changes it."""
    if new == text:
        return False
    try:
        if not file.parent.is_dir():
            file.parent.mkdir(mode=_FOLDER_MODE, parents=True)
        write(file, new)
    except OSError as error:
        why = "cannot be written; nothing was changed"
        raise ContactError(f"{file}: {worded(reason(error), why)}") from None
    return True
