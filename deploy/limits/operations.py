"""Operations on resource limits.

pyinfra's server.security_limit edits limits.conf, the user's file, and appends a second line when a
value changes.
"""

import re
from functools import partial

from pyinfra.api import FunctionCommand, Host, operation
from pyinfra.connectors.base import BaseConnector

from gpu_node.deploy.files.confirm import CONFIRM_SECONDS, Trial, keep_or_restore
from gpu_node.deploy.files.operations import Commands, edited
from gpu_node.deploy.files.replace import sum_of
from gpu_node.deploy.files.trial import SESSION_SECONDS
from gpu_node.drift.limits.pam_limits import GROWING
from gpu_node.drift.units import at_least, limit
from gpu_node.facts.ask.execute import execute
from gpu_node.facts.limits.state import ResourceLimits, Session
from gpu_node.facts.probe.lines import lines_of


@operation()
def own_file(path: str, content: str, account: str = "") -> Commands:
    """
    Write our limits.d file; it is kept only if a new session can still be opened with it.

    + path: the file, eg ``/etc/security/limits.d/99-gpu-node.conf``
    + content: our lines; lines that others wrote into it stay below ours
    + account: also tried with a new session; empty for only the SSH user
    """
    edit = partial(_with_others, content=content)
    new = yield from edited(path, edit, confirm_seconds=CONFIRM_SECONDS)
    if new is not None:
        trial = Trial(path, sum_of(new), accounts=[account], complaint=_lowered)
        yield FunctionCommand(keep_or_restore, [trial], {})


@operation()
def pam_limits(path: str, line: str, account: str = "") -> Commands:
    """
    Add pam_limits to a PAM stack; it is kept only if a new session opens and has other limits.

    + path: the stack, eg ``/etc/pam.d/sshd``
    + line: the line that loads the module
    + account: also tried with a new session; empty for only the SSH user
    """
    edit = partial(with_module, line=line)
    done, seconds = "loads pam_limits", CONFIRM_SECONDS
    new = yield from edited(path, edit, done, absent="refused", confirm_seconds=seconds)
    if new is not None:
        trial = Trial(path, sum_of(new), accounts=[account], complaint=_without_effect)
        yield FunctionCommand(keep_or_restore, [trial], {})


def with_module(text: str, line: str) -> str:
    """Return the text of a PAM stack with a line at its end, unless a line loads the module."""
    if any("pam_limits" in each.split("#")[0] for each in lines_of(text)):
        return text
    gap = "" if text.endswith("\n") or not text else "\n"
    return f"{text}{gap}# Added by gpu-node: limits.conf and limits.d count for logins.\n{line}\n"


def _with_others(text: str, content: str) -> str:
    return content + "".join(others_lines(text, content))


def others_lines(text: str, ours: str) -> list[str]:
    """Return the lines of our file's `text` that we did not write, each with its line end.

    Ours are the comments in `ours`, and each line that sets an item for a user or group for which
    `ours` sets it.
    """
    comments = {line for line in lines_of(ours) if line.startswith("#")}
    pairs = {_pair(line) for line in lines_of(ours)} - {None}
    lines = re.split(r"(?<=\n)", text)
    return [
        line for line in lines if line.rstrip("\r\n") not in comments and _pair(line) not in pairs
    ]


def _pair(line: str) -> tuple[str, str] | None:
    """For whom and what a line sets; None if it sets nothing, such as a comment."""
    fields = line.split("#")[0].split()
    return (fields[0], fields[2].lower()) if len(fields) > 3 else None


def _lowered(host: Host, new: BaseConnector) -> str:
    """Return what a new session has less of than the one before; empty if nothing.

    If sshd may not grant what a file sets, pam_limits grants nothing of it.
    """
    return _less(*(_session(connector) for connector in (host.connector, new)))


def _without_effect(host: Host, new: BaseConnector) -> str:
    """Return what is wrong with a session that pam_limits sets up; empty if it has other limits."""
    before, now = (_session(connector) for connector in (host.connector, new))
    if before == now:
        return "a new session has the same limits as before: the line has no effect"
    return _less(before, now)


def _less(before: Session, now: Session) -> str:
    """Return what a session has less of than another one; empty if nothing."""
    for item in GROWING:
        pairs = [getattr(session, item) for session in (before, now)]
        for kind in ("soft", "hard") if None not in pairs else ():
            had, has = (getattr(pair, kind) for pair in pairs)
            if not at_least(has, had):
                shown = [limit(value, item) for value in (has, had)]
                return (
                    f"a new session gets {kind} {item} {shown[0]}, where it was {shown[1]}: sshd "
                    "may not grant what is wanted (a container without CAP_SYS_RESOURCE, or "
                    "Limit*= in its systemd unit)"
                )
    return ""


def _session(connector: BaseConnector) -> Session:
    """The limits of a connection's session: without sudo, which uses separate PAM settings.

    Only this area is asked: the other questions of the probe may take longer than the node waits
    before it undoes the change.
    """
    fact = ResourceLimits()
    _, output = execute(connector, fact.command(), SESSION_SECONDS)
    return Session.model_validate(fact.process(output.stdout_lines)["session"])
