"""Again: a server that the inventory has lets this machine in, or its first contact is repeated."""

from __future__ import annotations

from collections.abc import Sequence

from paramiko import PKey

from onboarding.admission import STAGES, Admission
from onboarding.contact import ContactError, Server, pin
from onboarding.joining import STAGES as JOINING
from onboarding.joining import left
from onboarding.keys import public_key
from onboarding.login import KeyRefused, prove_key
from onboarding.stopped import Stopped

_REFUSED = "its sshd takes no key of this machine"


def let_in_again(admission: Admission, verifies: bool) -> bool:
    """Have an entered server let this machine in; return whether it has yet to join the others.

    That is where it was begun, or has just let a key in: it may have been installed anew, so that
    nothing counts which was done before. With --dry the stages that it has before it are shown;
    `verifies` says whether a job is one of them. Raises Stopped or ContactError; what keeps a
    member from being asked is left to the report.
    """
    begun, screen, server = admission.is_unfinished, admission.screen, admission.server
    screen.stage(STAGES[0], f"does {server.at} still let this machine in?")
    try:
        chosen, keys = admission.believed(screen.asks if begun else None)
        refused = _is_refused(server, chosen)
    except ContactError:
        if begun:
            screen.say("  it cannot be asked")
            raise
        screen.say("  it cannot be asked; the report tells why")
        return False
    if refused:
        _repeat_contact(admission, begun, chosen, keys)
    else:
        screen.say("  it does")
        if begun and not admission.terms.dry:
            pin(server, chosen, keys)
    if admission.terms.dry and (begun or refused):
        _foretell(admission, () if refused else STAGES[:1], verifies)
    return begun or refused


def _repeat_contact(admission: Admission, begun: bool, chosen: str, keys: Sequence[PKey]) -> None:
    """Let the key in by a password, which somebody has to give; Stopped where nobody can."""
    screen, name = admission.screen, admission.wish.name
    if admission.terms.secret is None and not screen.is_attended:
        raise Stopped(
            f"{_REFUSED}; give a password (GPU_NODE_PASSWORD, --password-stdin or a terminal), and "
            "its key is let in again"
        )
    admission.journal = admission.journal.anew()
    if admission.terms.dry:
        screen.say(f"  {_REFUSED}: by the password it would be let in again")
        return
    screen.say(f"  {_REFUSED}")
    if not begun:
        question = f"Let its key in again, and deploy {name}?"
        screen.confirm(question, "that its key is let in again")
    admission.let_in(chosen, keys)


def _foretell(admission: Admission, contact: Sequence[str], verifies: bool) -> None:
    """Show which stages of an entered server were done, and which would be done now."""
    site, begun = admission.site, admission.journal
    file, before = site.digest(), left(site, begun, verifies)
    done = [*contact, *STAGES[1:], *(each for each in JOINING if begun.has_done(each, file))]
    would = [*(() if contact else STAGES[:1]), *before]
    admission.screen.print(
        f"{site.file} has it already; done before: {', '.join(done)}; would be done now: "
        f"{', '.join(would)}\n"
    )


def _is_refused(server: Server, host_key: str) -> bool:
    try:
        prove_key(server, host_key)
    except KeyRefused:
        public_key(server)  # where this machine has none to offer, that is told instead
        return True
    return False
