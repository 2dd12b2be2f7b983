"""Turning password logins off on a server: kept when a key still opens a session, else undone."""

from __future__ import annotations

import fnmatch
import shlex
import time

from pyinfra.api import StringCommand

from deploy.confirmation import CONFIRM_SECONDS
from deploy.replacement import confirm, replace, restore, sum_of
from deploy.scripts import text
from drift.report.visible import visible
from facts.files import FileBytes, FileContent
from facts.kernels import SBIN
from onboarding.contact import ContactError
from onboarding.login import NONE, TYPED, methods, open_by_key, prove_key
from onboarding.session import Session

MAIN = "/etc/ssh/sshd_config"
# Files are read in the order of their names, and the first value of a setting is the one.
OWN = "/etc/ssh/sshd_config.d/00-gpu-node.conf"
_HEAD = "# gpu-node: no logins by password; the first value of a setting is the one that counts.\n"
# sshd before 8.7 has the last one beside the second; later ones take it for the second.
_SETTINGS = (
    "PasswordAuthentication",
    "KbdInteractiveAuthentication",
    "ChallengeResponseAuthentication",
)
_TEXT = _HEAD + "".join(f"{each} no\n" for each in _SETTINGS)
_SECONDS = 30
# A reloaded sshd listens anew within a moment; a loaded machine takes longer.
_SETTLE_SECONDS = 20
_PAUSE = 0.5


def refuse_passwords(session: Session, host_key: str) -> bool:
    """Have sshd take no passwords, for all its users; return whether that is new.

    The session stays open. A new one must open by key, and sshd must no longer offer passwords;
    otherwise the files are put back, by the node itself should this machine be gone. Raises
    ContactError; nothing is changed then. It is raised as well where the user is let in without
    any password: that is not for this to mend.
    """
    taken = methods(session.server, host_key)
    if NONE in taken:
        user = session.server.user
        raise ContactError(
            f"{session.server.login} is let in without any password or key, so there is none "
            f"to call off: give {user} one (passwd {user}), or say PermitEmptyPasswords no in "
            f"{MAIN}, then run again; nothing was changed"
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
        failure = _problem(session, restore(path, then=reload))
        outcome = (
            f"it could not be put back ({failure}); the node does so itself {CONFIRM_SECONDS} s "
            "after it was written"
            if failure
            else "it was put back as before"
        )
        raise ContactError(f"{session.server.login}: {path}: {problem}: {outcome}")
    return True


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
    ours = {each.lower() for each in _SETTINGS}
    for line in config.splitlines():
        word, *values = line.replace("=", " ").split() or [""]
        if word.lower() in {"match", *ours}:
            break
        named = (f"/etc/ssh/{each}" if not each.startswith("/") else each for each in values)
        if word.lower() == "include" and any(fnmatch.fnmatch(OWN, each) for each in named):
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
            problem = f"sshd takes {', '.join(sorted(left))} all the same (a Match block?)"
        except ContactError as error:
            problem = str(error)
        if time.monotonic() > end:
            return problem
        time.sleep(_PAUSE)
