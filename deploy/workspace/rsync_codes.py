"""How a copy by rsync ended: whether it is complete; if not, what is left and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Copier:
    """Who copies from where: `user` is empty for the user who runs the controller.

    `receiver` is the user at the other end, `login` the ssh command that leads there.
    """

    source: str
    user: str
    receiver: str
    login: str


def is_whole(code: int) -> bool:
    """Whether all files that are still there were copied."""
    return code in (0, VANISHED)


def next_step(code: int, messages: Sequence[str], has_sent: bool, copier: Copier) -> str:
    """Return what a failed copy has left, and what to do; `has_sent` is from its progress."""
    text = "\n".join(messages)
    received = [int(count) for count in _RECEIVED.findall(text)]
    if code < 0 or code in _INTERRUPTED:
        if has_sent or any(received):
            return "what was sent stays, and the next run sends the rest"
        return f"nothing was sent: {_login(copier)}"
    if code == MORE_TO_DELETE:
        return "rsync would delete more than the report lists; the rest stays: check it, run again"
    if _DENIED.search(text):
        who = f"{copier.user} of {copier.source}" if copier.user else "you"
        owner = as_whom(messages)
        repair = f"give it to {owner} (chown -R)" if owner else "correct owner or mode (ls -ld)"
        return (
            f"what was sent stays, the rest cannot be sent: {who} cannot read "
            f"it there, or {owner or copier.receiver} cannot write it here; {repair}, and run again"
        )
    return "what was sent stays; correct what the error reports, and run again"


def as_whom(messages: Sequence[str]) -> str:
    """Return the user as whom root received, the folder's owner; empty if it was root."""
    return next((line.removeprefix(AS) for line in messages if line.startswith(AS)), "")


def _login(copier: Copier) -> str:
    """Return how to try the login that a copy begins with."""
    where = f"on {copier.source}, as {copier.user}" if copier.user else "on this machine"
    return f"check that this command works {where}: {copier.login} rsync --version"
