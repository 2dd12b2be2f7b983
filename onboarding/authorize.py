"""Letting the controller's key in on a server, so that no password is needed again."""

from __future__ import annotations

import re
import shlex

from deploy import replacement
from deploy.scripts import text
from drift.report.visible import visible
from facts.mesh import HOME
from onboarding.contact import ContactError
from onboarding.session import ROOT, Session

_SECONDS = 30
_CHANGED, _THERE, _RESTRICTED = "changed", "there", "restricted"
_KEY = re.compile(r"[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( [^\x00-\x1f\x7f]*)?")


def install_key(session: Session, public: str) -> bool:
    """Put a public key, `kind key comment`, into the user's authorized_keys; whether that changed.

    A session that was opened by key needs no line: one more would undo what the server's owner
    restricts that key to (from="..."). A key that is in already stays as it is; where it has
    options, which then do not let this machine in, ContactError is raised. All other bytes stay;
    home, folder and file are closed to others as far as sshd insists. Raises ContactError.
    """
    if session.by == "key":
        return False
    line = public.strip()
    if not _KEY.fullmatch(line):
        raise ContactError(f"{visible(line)[:60]!r} is no public key; nothing was changed")
    backups = replacement.backups() if session.server.user == ROOT else ""
    variables = f"line={shlex.quote(line)}\nbackups={shlex.quote(backups)}\n"
    done = session.run(f"{HOME}{variables}{text('authorize')}", _SECONDS)
    outcome = done.out[-1] if done.out else ""
    if done.code == 0 and outcome == _RESTRICTED:
        raise ContactError(
            f"{session.server.login}: its authorized_keys has this machine's key with options "
            '(from="...", command="..." and the like) that do not let it in: let the line have '
            "this machine's address, or take it away; it was left as it is"
        )
    if done.code != 0 or outcome not in (_CHANGED, _THERE):
        said = visible(done.err or outcome or f"exit {done.code}")
        raise ContactError(f"{session.server.login}: the key could not be let in: {said}")
    return outcome == _CHANGED
