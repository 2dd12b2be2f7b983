"""Turning password logins off on a server: kept when a key still opens a session, else undone."""

import shlex
import time

from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import text
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.confirm import CONFIRM_SECONDS, RESTORED, left_to_node
from gpu_node.deploy.files.replace import confirm, replace, reread, restore, sum_of
from gpu_node.facts.globs import matches_any
from gpu_node.facts.limits.confirmed import SSHD as MAIN
from gpu_node.facts.limits.confirmed import SSHD_FIRST as OWN
from gpu_node.facts.limits.unsettled import Waiting, listing, parse
from gpu_node.facts.probe.file_bytes import FileBytes, FileContent
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.shell import SBIN
from gpu_node.inventories.escape import visible
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust.login import NONE, TYPED, methods, open_by_key, prove_key
from gpu_node.onboarding.trust.session import Session

_HEAD = "# gpu-node: no logins by password; the first value of a setting is the one that counts.\n"
# sshd before 8.7 has the last one beside the second; later ones take it for the second.
_SETTINGS = (
    "PasswordAuthentication",
    "KbdInteractiveAuthentication",
    "ChallengeResponseAuthentication",
)
_TEXT = _HEAD + "".join(f"{setting} no\n" for setting in _SETTINGS)
_SECONDS = 30
# A reloaded sshd listens anew within a moment; a loaded machine takes longer.
_SETTLE_SECONDS = 20
_PAUSE = 0.5


def refuse_passwords(session: Session, host_key: str) -> bool:
    """Have sshd take no passwords, for all its users; return whether that is new.

    The session stays open. A new one must open by key, and sshd must no longer offer passwords;
    otherwise the files are put back, by the node itself should this machine be gone. Raises
    ContactError; nothing is changed then. It is raised as well where the user is let in without
    any password: this does not change that.
    """
    settle(session, host_key)
    taken = methods(session.server, host_key)
    if NONE in taken:
        user = session.server.user
        raise ContactError(
            f"{session.server.login} can log in without a password or key, "
            f"so disabling passwords would not stop that: give {user} one (passwd {user}), or set "
            f"PermitEmptyPasswords no in {MAIN}, then run again; nothing was changed"
        )
    if not TYPED & set(taken):
        return False
    prove_key(session.server, host_key)
    path = _place(_read(session, MAIN)["text"])
    old = _read(session, path)
    new = _TEXT if path == OWN else _TEXT + old["text"].removeprefix(_TEXT)
    reload = text("reload_sshd")
    check = _check(path)
    command = replace(path, old, new, check, confirm_seconds=CONFIRM_SECONDS, then=reload)
    if problem := _problem(session, command):
        raise ContactError(f"{session.server.login}: {problem}")
    problem = _problem(session, StringCommand(reload)) or _not_kept(session, host_key, path, new)
    if problem:
        failure = _problem(session, restore(path))
        outcome = left_to_node(failure) if failure else RESTORED
        raise ContactError(f"{session.server.login}: {path}: {problem}: {outcome}")
    return True


def settle(session: Session, host_key: str) -> None:
    """Confirm over a new session what a run that was cut off left of sshd's files, or undo it."""
    done = session.as_root(listing(replacement.PENDING), _SECONDS)
    try:
        waiting = parse("\n".join(done.out)) if done.code == 0 else ()
    except Unreadable as error:
        raise ContactError(f"{session.server.login}: {visible(str(error))}") from error
    for each in (each for each in waiting if each.path in (MAIN, OWN)):
        if not _problem(session, reread(each.path)) and not _confirmed(session, host_key, each):
            continue
        if problem := _problem(session, restore(each.path)):
            raise ContactError(
                f"{session.server.login}: {each.path}: an earlier run was cut off, and its change "
                f"could not be restored: {problem}"
            )


def _confirmed(session: Session, host_key: str, each: Waiting) -> str:
    """Confirm a change that waits, over a new session by key; why it is not kept, or nothing."""
    try:
        with open_by_key(session.server, host_key) as fresh:
            return _problem(fresh, confirm(each.path, each.after))
    except ContactError as error:
        return str(error)


def _read(session: Session, path: str) -> FileContent:
    fact = FileBytes()
    done = session.as_root(fact.command(path=path).get_raw_value(), _SECONDS)
    content = fact.process(done.out or [done.err])
    if content["problem"]:
        raise ContactError(
            f"{session.server.login}: {path} cannot be read: {visible(content['problem'])}"
        )
    return content


def _place(config: str) -> str:
    """Return the file to write: our own where sshd reads it before it has another value."""
    ours = {setting.lower() for setting in _SETTINGS}
    for line in lines_of(config):
        word, *values = line.replace("=", " ").split() or [""]
        if word.lower() in {"match", *ours}:
            break
        named = (f"/etc/ssh/{value}" if not value.startswith("/") else value for value in values)
        if word.lower() == "include" and matches_any(OWN, named):
            return OWN
    return MAIN


def _check(path: str) -> str:
    """Return sh that refuses what sshd cannot read: our own file with the main one below it."""
    rest = shlex.quote(MAIN) if path == OWN else ""
    return (
        f"{SBIN}whole=$(mktemp) && trap 'rm -f \"$whole\"' EXIT && "
        f'cat "$1" {rest} >"$whole" && sshd -t -f "$whole"'
    )


def _problem(session: Session, command: StringCommand) -> str:
    """Run a command as root; why it failed, or nothing."""
    stdin = "".join(f"{line}\n" for line in command.connector_arguments.get("_stdin") or [])
    try:
        done = session.as_root(command.get_raw_value(), _SECONDS, stdin)
    except ContactError as error:
        return str(error)
    return "" if done.code == 0 else visible(done.err or f"exit {done.code}")


def _not_kept(session: Session, host_key: str, path: str, new: str) -> str:
    """Confirm the change over a new session by key; why it is not kept, or nothing."""
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            left = {*TYPED, NONE} & set(methods(session.server, host_key))
            if not left:
                with open_by_key(session.server, host_key) as fresh:
                    return _problem(fresh, confirm(path, sum_of(new)))
            problem = f"sshd still accepts {', '.join(sorted(left))} (a Match block?)"
        except ContactError as error:
            problem = str(error)
        if time.monotonic() > end:
            return problem
        time.sleep(_PAUSE)
