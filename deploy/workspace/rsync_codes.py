"""How a copy by rsync ended: whether it is whole, and else what became of it and what is next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Files went away meanwhile, as those of a running job do.
VANISHED = 24
# --max-delete stopped it.
MORE_TO_DELETE = 25
# rsync(1), EXIT VALUES: socket or stream broke, a signal, a time limit; 255 is ssh's own. A code
# below 0 is a signal's, or that of a connection which went away without one.
_INTERRUPTED = frozenset({10, 12, 20, 30, 35, 255})
# What it is told with by the side whose other end went away.
_RECEIVED = re.compile(r"\((\d+) bytes received so far\)")
_DENIED = re.compile(r"Permission denied \(13\)|Operation not permitted \(1\)")


@dataclass(frozen=True)
class Copier:
    """Who copies from where: `user` is empty where it is whoever the controller runs as.

    `receiver` is the user at the other end, `login` the ssh command that leads there.
    """

    source: str
    user: str
    receiver: str
    login: str


def is_whole(code: int) -> bool:
    """Whether all files that are still there were copied."""
    return code in (0, VANISHED)


def way_on(code: int, said: Sequence[str], has_sent: bool, copier: Copier) -> str:
    """Say what a copy that failed has left, and what to do; `has_sent` is from its progress."""
    text = "\n".join(said)
    received = [int(count) for count in _RECEIVED.findall(text)]
    if code < 0 or code in _INTERRUPTED:
        if has_sent or any(received):
            return "what was sent stays, and the next run sends the rest"
        return f"nothing was sent: {_login(copier)}"
    if code == MORE_TO_DELETE:
        return "more would be deleted than the report lists; the rest stays: look at it, run again"
    if _DENIED.search(text):
        who = f"{copier.user} of {copier.source}" if copier.user else "you"
        return (
            f"what was sent stays, the rest cannot be: {who} may not read it there, or "
            f"{copier.receiver} may not write it here; mend owner or mode (ls -ld), and run again"
        )
    return "what was sent stays; mend what it says, and run again"


def _login(copier: Copier) -> str:
    """Say how to try the login that a copy begins with."""
    where = f"on {copier.source}, as {copier.user}" if copier.user else "on this machine"
    return f"see that a login works, and an rsync is there: {where}: {copier.login} rsync --version"
