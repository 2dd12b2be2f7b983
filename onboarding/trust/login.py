"""Logging in to a server with one certain host key, by the controller's keys or a password."""

from collections.abc import Callable, Iterator
from contextlib import closing

from paramiko import AuthenticationException, BadAuthenticationType, SSHException, Transport

from gpu_node.deploy.engine.pyinfra_process import VARIABLE
from gpu_node.facts.ssh.state import fingerprint
from gpu_node.inventories.connection.offered import connected
from gpu_node.inventories.connection.transport import BoundedTransport
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust.host_keys import Server, unreachable
from gpu_node.onboarding.trust.keys import own_keys
from gpu_node.onboarding.trust.password import Secret
from gpu_node.onboarding.trust.session import ROOT, Session

# A busy sshd takes its time to greet and to ask PAM, see inventories.cluster.CONNECTING.
_BUSY_SECONDS = 60
# The methods that ask for a password.
TYPED = frozenset({"password", "keyboard-interactive"})
# The method of an account without a password.
NONE = "none"
_HUNG_UP = "it closed the connection"
_NO_ANSWER = "it did not answer in time"
_LOST = (_HUNG_UP, _NO_ANSWER)
_REFUSED = "the password is refused"
# How often ssh asks for a password, too.
_TRIES = 3
_NOT_UTF_8 = "the user or the password is not UTF-8"

# A password, or what asks for one when it is needed.
Password = Secret | Callable[[], Secret | None] | None
Methods = tuple[str, ...]


class KeyRefused(ContactError):
    """An sshd that answers and takes none of the controller's keys."""


def open_session(server: Server, host_key: str, secret: Password = None) -> Session:
    """Log in by the controller's keys, or, where those are refused, by the password.

    `host_key`, as `kind key`, is the only accepted one. A function that asks for a password is
    called only when needed, and again after a refused one. Raises ContactError with the methods
    that were tried and those that sshd accepts.
    """
    session, refused, allowed = _tried(server, host_key, "key", _log_in_by_key)
    by_password = ""
    for known in _passwords(secret) if session is None else ():
        session, by_password, later = _tried(server, host_key, "password", _by_password(known))
        allowed = later or allowed
        if by_password != _REFUSED:
            break
    if session is None:
        refused = "; ".join(filter(None, (refused, by_password)))
        _raise_if_lost(server, refused)
        takes = f" ({_taken(allowed)})" if allowed else ""
        advice = _advice(server, bool(by_password), allowed)
        raise ContactError(f"{server.login}: found no login: {refused}{takes}; next: {advice}")
    return _greeted(session)


def _passwords(secret: Password) -> Iterator[Secret]:
    """Yield the passwords to try: a given one once, a prompt several times."""
    if isinstance(secret, Secret):
        yield secret
    elif secret is not None:
        for _ in range(_TRIES):
            if (typed := secret()) is None:
                return
            yield typed


def open_by_key(server: Server, host_key: str) -> Session:
    """Log in to a server that has the controller's key; raises ContactError where it is no use.

    It is KeyRefused where that is the server's answer.
    """
    session, refused, _ = _tried(server, host_key, "key", _log_in_by_key)
    if session is None:
        _raise_if_lost(server, refused)
        raise KeyRefused(
            f"{server.login}: found {refused}, though ~{server.user}/.ssh/authorized_keys should "
            "let it in; next: does sshd read another file (AuthorizedKeysFile), or accept no keys "
            "(PubkeyAuthentication, AuthenticationMethods; for root PermitRootLogin no or "
            "forced-commands-only, where prohibit-password is needed)? sshd -T shows it on its "
            "console"
        )
    return _greeted(session)


def prove_key(server: Server, host_key: str) -> None:
    """Log in anew by the controller's keys alone; raises ContactError where that does not work."""
    open_by_key(server, host_key).close()


def methods(server: Server, host_key: str) -> Methods:
    """Return the login methods that a server's sshd lists for a client without credentials.

    It is NONE alone where that client is let in. Raises ContactError where the server cannot be
    reached, its host key is another, or it lists none.
    """
    with closing(_connected(server, host_key)) as transport:
        found = _methods(transport, server.user)
    if found is None:
        raise ContactError(
            f"{server.login}: found an sshd that does not list its login methods; next: try "
            "again, or see its log"
        )
    return found


def _greeted(session: Session) -> Session:
    try:
        session.greet()
    except BaseException:
        session.close()
        raise
    return session


def _raise_if_lost(server: Server, refused: str) -> None:
    """A connection that broke is no refusal."""
    if refused.endswith(_LOST):
        raise ContactError(f"{server.login}: found {refused}; next: try again, or see its log")


def _tried(
    server: Server, host_key: str, by: str, log_in: Callable[[Transport, Server], str]
) -> tuple[Session | None, str, Methods]:
    """Return a session; or else the reason, and the methods that sshd accepts.

    Each method has its own connection: sshd hangs up after some refusals (MaxAuthTries).
    """
    transport = _connected(server, host_key)
    try:
        refused = log_in(transport, server)
        if not refused:
            return Session(server, transport, by), "", ()
        allowed = _methods(transport, server.user) or ()
    except BaseException:
        transport.close()
        raise
    transport.close()
    return None, refused, allowed


def _connected(server: Server, host_key: str) -> Transport:
    """Connect to the server, which must have that host key; no login yet."""
    transport = None
    try:
        transport = BoundedTransport(connected(server.data))
        transport.banner_timeout = transport.auth_timeout = _BUSY_SECONDS
        _prefer(transport, host_key.split()[0])
        transport.start_client(timeout=_BUSY_SECONDS)
        key = transport.get_remote_server_key()
    except (OSError, SSHException, EOFError) as error:
        problem = unreachable(server, error, _BUSY_SECONDS)
    else:
        shown = f"{key.get_name()} {key.get_base64()}"
        if shown == host_key:
            return transport
        problem = (
            f"found a host key of {server.at} that has changed since it was confirmed (it was "
            f"{fingerprint(host_key)}, and is {fingerprint(shown)}: another machine may "
            "have intercepted the connection; no credentials were sent)"
        )
    if transport is not None:
        transport.close()
    raise ContactError(problem)


def _prefer(transport: Transport, kind: str) -> None:
    """Ask for the host key of that kind; the names of RSA's tell the signature as well."""
    family = "rsa" if kind == "ssh-rsa" else kind
    options = transport.get_security_options()
    options.key_types = sorted(options.key_types, key=lambda each: family not in each)


def _methods(transport: Transport, user: str) -> Methods | None:
    """The ways that sshd takes, NONE where it asks for nothing; None where it does not tell."""
    try:
        more = transport.auth_none(user)
    except BadAuthenticationType as error:
        return tuple(sorted(filter(None, error.allowed_types)))
    except (SSHException, OSError, EOFError, ValueError):
        return None
    return tuple(sorted(more)) or (NONE,)


def _log_in_by_key(transport: Transport, server: Server) -> str:
    """Log in by one of the controller's keys; what is returned says why not."""
    named = str(server.key) if server.key else "of an agent or ~/.ssh"
    with own_keys(server) as keys:
        if not keys:
            return f"no key {named} can be used (does it exist, without a passphrase?)"
        for key in keys:
            try:
                more = transport.auth_publickey(server.user, key)
            except AuthenticationException as error:
                if lost := _lost(transport, error):
                    return lost
                continue
            except (SSHException, OSError, EOFError):
                return _HUNG_UP
            except UnicodeError:
                return _NOT_UTF_8
            return _wants(more)
    return f"the key {named} is refused" if server.key else f"every key {named} is refused"


def _by_password(secret: Secret) -> Callable[[Transport, Server], str]:
    """Log in by a password. The errors of it go no further: their frames have it."""

    def answers(title: str, instructions: str, fields: list[tuple[str, bool]]) -> list[str]:
        return ["" if shown else secret.reveal() for _, shown in fields]

    def log_in(transport: Transport, server: Server) -> str:
        try:
            try:
                more = transport.auth_password(server.user, secret.reveal(), fallback=False)
            except BadAuthenticationType as error:
                if "keyboard-interactive" not in error.allowed_types:
                    return "no password is accepted"
                more = transport.auth_interactive(server.user, answers)
        except AuthenticationException as error:
            return _lost(transport, error) or _REFUSED
        except (SSHException, OSError, EOFError):
            return _HUNG_UP
        except UnicodeError:
            return _NOT_UTF_8
        return _wants(more)

    return log_in


def _lost(transport: Transport, error: AuthenticationException) -> str:
    """Return why there was no answer, which paramiko reports like a refusal; else an empty text."""
    if not transport.is_active():
        return _HUNG_UP
    return _NO_ANSWER if "timeout" in str(error).lower() else ""


def _wants(more: list[str]) -> str:
    """What sshd asks for when one way has worked (AuthenticationMethods)."""
    return f"sshd also requires {', '.join(more)}, which gpu-node does not support" if more else ""


def _taken(allowed: Methods) -> str:
    if NONE in allowed:
        return "its sshd accepts the account without a password: set one with passwd"
    return f"its sshd accepts {', '.join(allowed)}"


def _advice(server: Server, has_password: bool, allowed: Methods) -> str:
    manual_fix = f"put the controller's public key into ~{server.user}/.ssh/authorized_keys there"
    if not has_password:
        return (
            f"give a password (at the prompt, in {VARIABLE}, or --password-stdin), or {manual_fix}"
        )
    if allowed and not TYPED & set(allowed):
        return f"sshd accepts no password there (PasswordAuthentication no): {manual_fix}"
    if server.user == ROOT:
        return (
            "the password is wrong, or root may not log in with one (PermitRootLogin "
            f"prohibit-password; sshd -T shows it on its console): then {manual_fix}; with no or "
            "forced-commands-only that key is refused as well: set prohibit-password first"
        )
    name = server.user
    return f"is it {name}'s password, and does {name} exist there? --user root for root's"
