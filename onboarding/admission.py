"""Admission: from an address to an entry in the inventory; where it refuses, nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paramiko import PKey

from drift.report.preflight import table
from drift.report.visible import visible
from inventories import editing
from inventories.cluster import Data
from inventories.pinned import SSH_PORT
from inventories.schema import load
from onboarding import contact, journal
from onboarding.authorize import install_key
from onboarding.contact import Server
from onboarding.early import refuse_early
from onboarding.entry import Proposal, Refusal, composed, entered, proposed
from onboarding.forecast import forecast
from onboarding.journal import Journal
from onboarding.keys import public_key
from onboarding.login import open_session, prove_key
from onboarding.password import Secret, typed
from onboarding.preflight import Looked, look
from onboarding.screen import Screen
from onboarding.session import Session
from onboarding.signals import undisturbed
from onboarding.site import Site, known_hosts
from onboarding.sshd import refuse_passwords
from onboarding.stopped import Stopped

STAGES = ("contact", "pre-flight", "entry")
SSH_USER = "root"


@dataclass(frozen=True)
class Wish:
    """What is asked for: a server's name, and how it is reached; None is not said."""

    name: str
    address: str | None = None
    user: str | None = None
    port: int | None = None
    group: str | None = None
    # Of the host key that it alone must have.
    fingerprint: str | None = None


@dataclass(frozen=True)
class Terms:
    """On what terms: host keys that are vouched for, and what may be changed."""

    accept: tuple[str, ...] = ()
    secret: Secret | None = None
    disable_password: bool = False
    dry: bool = False


def _check_characters(wish: Wish) -> None:
    """What is not UTF-8 could be told to no sshd, and no journal could keep it."""
    for each in (wish.name, wish.address, wish.user, wish.group):
        if each and visible(each) != each:
            raise Stopped(f"no name, address, user or group has such characters: {visible(each)}")


class Admission:
    """One server's way into the inventory."""

    def __init__(self, site: Site, wish: Wish, terms: Terms, screen: Screen) -> None:
        self.site, self.wish, self.terms, self.screen = site, wish, terms, screen
        self.cluster = site.cluster()
        self.journal = self._begun()

    def _begun(self) -> Journal:
        """Return how far it came before; one with other words begins anew."""
        before, wish = journal.read(self.site, self.wish.name), self.wish
        _check_characters(wish)
        address = wish.address or (before.address if before else None)
        if address is None and wish.name in self.cluster.hosts:
            address = str(self.cluster.data_of(wish.name)["ssh_hostname"])
        if address is None:
            raise Stopped(f"no address: gpu-node onboard {wish.name} ADDRESS")
        is_there = wish.name in self.cluster.hosts
        level = self.cluster.data_of(wish.name) if is_there else self.cluster.level(wish.group)
        # What the file says by now goes before what was said when it was begun.
        old = None if is_there else before
        said = Journal(
            name=wish.name,
            address=address,
            user=wish.user or (old.user if old else level.get("ssh_user") or SSH_USER),
            port=wish.port or (old.port if old else level.get("ssh_port") or SSH_PORT),
            group=wish.group or (before.group if before else None),
            pinned=before.pinned if before else (),
        )
        return before if before is not None and before.anew() == said else said

    @property
    def is_entered(self) -> bool:
        """Whether the inventory has the server; Refusal where its name or address is another's."""
        return entered(self.cluster, self.wish.name, self.journal.address)

    def refuse_other_words(self) -> None:
        """Raise Stopped where an entered server is asked for by other words than the file has."""
        data = self.cluster.data_of(self.wish.name)
        asked = {
            "--group": (self.wish.group, self.cluster.hosts[self.wish.name].group),
            "--user": (self.wish.user, data.get("ssh_user") or SSH_USER),
            "--port": (self.wish.port, data.get("ssh_port") or SSH_PORT),
        }
        for option, (word, said) in asked.items():
            if word is not None and word != said:
                raise Stopped(
                    f"{option} {word}: {self.site.file} has it with {said}; change it there"
                )

    @property
    def is_unfinished(self) -> bool:
        """Whether it was begun, and is no member yet."""
        return journal.read(self.site, self.wish.name) is not None

    @property
    def server(self) -> Server:
        """The server, and how the inventory would reach it."""
        given, level = self.journal, self._way()
        key = level.get("ssh_key")
        return Server(
            name=given.name,
            address=given.address,
            port=given.port,
            user=given.user,
            known_hosts=known_hosts(level),
            key=Path(str(key)) if key else None,
        )

    def _way(self) -> Data:
        """Return what the inventory says of how to reach it: its own entry, or its group's."""
        if self.wish.name in self.cluster.hosts:
            return self.cluster.data_of(self.wish.name)
        return self.cluster.level(self.journal.group)

    def admit(self) -> Journal:
        """Put the server into the inventory, or say what would be put there.

        Raises Stopped, ContactError or Refusal; the inventory is then as it was.
        """
        refuse_early(self.site, self.cluster, self.journal)
        host_key = self._contact()
        with self._session(host_key) as session:
            text = self.site.text()
            new, proposal = self._preflight(session, host_key, text)
            self._enter(session, text, new, proposal)
        return self.journal

    def _contact(self) -> str:
        """Know the server's host key, and have it let in this machine's key."""
        self.screen.stage(STAGES[0], f"first contact with {self.server.at}")
        chosen, keys = self.believed(self.screen.asks)
        self.let_in(chosen, keys)
        return chosen

    def believed(self, asks: Callable[[str], bool] | None) -> tuple[str, list[PKey]]:
        """Return the host key to believe in, as `kind key`, and all that are offered."""
        keys = contact.offered(self.server)
        accept = contact.accepted(self.server, keys, self.wish.fingerprint, self.terms.accept)
        return contact.choose(self.server, keys, accept, asks), keys

    def let_in(self, chosen: str, keys: Sequence[PKey]) -> None:
        """Pin the host key and have this machine's key let in, by a password where it is not."""
        server = self.server
        with self._session(chosen) as session:
            if refusal := session.sudo_refusal():
                raise Stopped(refusal)
            if self.terms.dry:
                return
            self._pin(server, chosen, keys)
            if install_key(session, public_key(server)):
                self.screen.say(f"  this machine's key is let in as {server.user}")
            prove_key(server, chosen)

    def _pin(self, server: Server, chosen: str, keys: Sequence[PKey]) -> None:
        """Pin the host key, and note by what it was not known before: that can be taken back."""
        with undisturbed():
            before = contact.pinned_by(server)
            contact.pin(server, chosen, keys)
            own = [each for each in contact.pinned_by(server) if each not in before]
            pinned = tuple(dict.fromkeys((*self.journal.pinned, *own)))
            self.journal = self.journal.model_copy(update={"pinned": pinned})
            journal.write(self.site, self.journal)

    def disable_passwords(self) -> None:
        """Have its sshd take no passwords any more; it is reached by key and pinned by now."""
        server = self.server
        host_key = contact.choose(server, contact.offered(server), None, None)
        with open_session(server, host_key) as session:
            if refuse_passwords(session, host_key):
                self.screen.say(f"{server.name}: its sshd takes no passwords any more")

    def _session(self, host_key: str) -> Session:
        """Open a session by key, or else by the password, which is asked for only then."""
        server = self.server
        return open_session(server, host_key, self.terms.secret or typed(server.login))

    def _preflight(self, session: Session, host_key: str, text: str) -> tuple[str, Proposal]:
        """Look at the server and the way to the others; return what `text` is to become.

        Raises Stopped or Refusal where it cannot be a member.
        """
        self.screen.stage(STAGES[1], "can it be a member? It is only looked at")
        given = self.journal
        folder = self.cluster.defaults.get("workspace_path")
        looked = look(
            lambda script, seconds: session.as_root(script, seconds).out,
            str(self.site.inventory) if self.cluster.hosts else None,
            given.name,
            given.address,
            given.port,
            [host_key],
            [str(folder)] if folder else [],
        )
        refused, new = None, ""
        try:
            proposal = self._proposal(looked)
            new = composed(self.site.file, text, proposal)
        except Refusal as error:
            refused = error
        wanted = load(self.site.file, new).hosts[given.name].wanted if new else None
        rows = looked.rows(wanted, given.group)
        self.screen.show(table(rows))
        if stops := [f"{row.subject}: {row.why}" for row in rows if row.verdict == "stop"]:
            raise Stopped("it cannot be a member as it is:\n  " + "\n  ".join(stops))
        if refused:
            raise refused
        self._refuse_another_way(proposal)
        return new, proposal

    def _refuse_another_way(self, proposal: Proposal) -> None:
        """Raise Stopped where its group is reached by other files than the first contact took."""
        taken, level = self._way(), self.cluster.level(proposal.group)
        if any(taken.get(key) != level.get(key) for key in ("ssh_key", "ssh_known_hosts_file")):
            raise Stopped(
                f"group {proposal.group} has an ssh key or known_hosts of its own: say --group "
                f"{proposal.group}"
            )

    def _proposal(self, looked: Looked) -> Proposal:
        given = self.journal
        return proposed(
            self.cluster,
            given.name,
            given.address,
            looked.gpus,
            given.user,
            given.port,
            given.group,
            looked.interface,
        )

    def _enter(self, session: Session, text: str, new: str, proposal: Proposal) -> None:
        """Show what is written to the cluster file, and write it if nobody else has meanwhile."""
        self.screen.stage(STAGES[2], f"its entry in {self.site.file}")
        for reason in proposal.reasons:
            self.screen.say(f"  {reason}")
        self.screen.print(editing.diff(text, new, str(self.site.file)))
        if self.terms.dry:
            self._foresee(session, new)
            return
        self.screen.confirm(
            f"Write this to {self.site.file}, and deploy {self.wish.name}?", "the entry"
        )
        with undisturbed():
            journal.write(self.site, self.journal)
            editing.write(self.site.file, text, new)

    def _foresee(self, session: Session, new: str) -> None:
        """Say what is not right yet on the server, and what would be written on the others."""
        for line in forecast(session, load(self.site.file, new), self.wish.name):
            self.screen.print(f"{line}\n")
