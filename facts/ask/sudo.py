"""Why sudo refuses, and how to fix it, from sudo's output."""

import re
from typing import NamedTuple

from gpu_node.facts.probe.lines import lines_of

AS_ROOT = "or log in as root"
_VISUDO = "with visudo -f /etc/sudoers.d/gpu-node, add"
# The characters of a line of output that are shown.
_LONGEST = 200


class Refusal(NamedTuple):
    """A refusal of sudo: its output, the reason, the next step, and whether a password is all."""

    words: str
    reason: str
    fix: str
    asks: bool


class _Known(NamedTuple):
    """A kind of refusal; USER stands for the user in its texts."""

    pattern: str
    reason: str
    fix: str
    asks: bool = False


_LINE = f"{_VISUDO} `USER ALL=(ALL) NOPASSWD: ALL`"
_ALLOW = f"{_LINE}; {AS_ROOT}"
_ANOTHER = (
    "type it again; gpu-node drift and deploy take --limit, which selects the nodes that have the "
    "same password"
)
# The first kind that matches a line of output counts: a request for a password is the last line.
_KNOWN = (
    _Known(r"^sudo refuses this password", "the password is not the one of USER there", _ANOTHER),
    _Known(
        r"^this password was not tried: .* is silent",
        "no node has accepted the password yet, and sudo of others does not answer",
        "on those nodes, run time sudo -n true; gpu-node drift and deploy take --limit, which "
        "leaves them out",
    ),
    _Known(
        r"^this password was not tried",
        "another node has refused the password: more attempts could lock the account",
        _ANOTHER,
    ),
    _Known(
        r"must have a tty",
        "requiretty is set in the node's sudoers: sudo refuses to run without a terminal, and a "
        "command over SSH has none",
        f"{_VISUDO} `Defaults:USER !requiretty`; {AS_ROOT}",
    ),
    _Known(
        r"not in the sudoers file|not allowed to (run sudo|execute)|I'm afraid I can't do that",
        "the node's sudoers does not allow USER to run commands as root",
        _ALLOW,
    ),
    _Known(
        r"sudo: (command )?not found|command not found: sudo|it is not installed",
        "sudo is not installed",
        f"install sudo; {AS_ROOT}",
    ),
    _Known(
        r"syntax error|parse error|no valid sudoers|sudoers is ((world|group) writable|owned by)",
        "sudo cannot use the node's sudoers",
        f"as root, run visudo -c, which names the line; {AS_ROOT}",
    ),
    _Known(
        r"no new privileges|effective uid is not 0|setuid bit|must be setuid root",
        "sudo cannot become root there: a container with no-new-privileges, or a mount with "
        "nosuid, prevents it",
        f"remove that option; {AS_ROOT}",
    ),
    _Known(
        r"password (is )?expired|Account expired|account validation|account management",
        "PAM refuses the account of USER",
        f"as root, run chage -l USER, which shows whether it has expired; {AS_ROOT}",
    ),
    _Known(
        r"no password was provided",
        "sudo asks USER for more than a password, such as a one-time code",
        _ALLOW,
    ),
    _Known(
        r"no answer within",
        "sudo does not answer: it may wait for a directory server (LDAP, SSSD)",
        f"on the node, run time sudo -n true; {AS_ROOT}",
    ),
    _Known(
        r"password is required|terminal is required|no tty present|no askpass|"
        r"authentication is required",
        "sudo asks USER for a password",
        f"run gpu-node with --ask-sudo-password, or {_ALLOW}",
        asks=True,
    ),
)
_OTHER = _Known("", "sudo does not run commands as root for USER", _ALLOW)


def is_refusal(output: str) -> bool:
    """Whether the output of a command has a line of sudo: then sudo failed."""
    return re.search(r"\bsudo(-rs)?: |not in the sudoers file", output) is not None


def why_refused(output: str, user: str = "") -> Refusal:
    """Return why sudo refuses a user, from what it printed, in the C locale."""
    lines = [line.strip() for line in lines_of(output) if line.strip()]
    for known in _KNOWN:
        for line in lines:
            if re.search(known.pattern, line):
                return _refusal(known, line, user)
    return _refusal(_OTHER, lines[-1] if lines else "no output", user)


def asks_password(refusal: str | None) -> bool:
    """Whether sudo refuses because it was given no password."""
    return refusal is not None and why_refused(refusal).asks


def line_for(user: str) -> str:
    """Return how to let a user run sudo without a password: the line for sudoers."""
    return _LINE.replace("USER", user or "USER")


def _refusal(known: _Known, words: str, user: str) -> Refusal:
    reason = known.reason.replace("USER", user or "the SSH user")
    return Refusal(words[:_LONGEST], reason, known.fix.replace("USER", user or "USER"), known.asks)
