"""Admission: from an address to an entry in the inventory, which a refusal leaves as it was.

A server that the inventory has already repeats the first stage: it must accept the key.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paramiko import PKey
from rich.console import Group
from rich.text import Text

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.engine.blocking import bars_joining
from gpu_node.drift.report import full
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.signs import of_severity
from gpu_node.drift.report.view import View
from gpu_node.inventories.cluster import Data
from gpu_node.inventories.connection.known_hosts import SSH_PORT
from gpu_node.inventories.connection.ssh_config import BadConfig, login
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.errors import quoted, shown, worded
from gpu_node.inventories.escape import visible
from gpu_node.inventories.interrupt import deferred
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.schema import load
from gpu_node.inventories.yaml import edit as editing
from gpu_node.onboarding import journal
from gpu_node.onboarding.entry import (
    Proposal,
    check_place,
    composed,
    entered,
    expected,
    proposed,
)
from gpu_node.onboarding.errors import ContactError, Refusal, Stopped
from gpu_node.onboarding.forecast import forecast
from gpu_node.onboarding.inventory_files import Site, known_hosts
from gpu_node.onboarding.joining import stages_of
from gpu_node.onboarding.journal import Journal
from gpu_node.onboarding.preflight import look
from gpu_node.onboarding.trust import host_keys as contact
from gpu_node.onboarding.trust.host_keys import Server
from gpu_node.onboarding.trust.keys import install_key, public_key
from gpu_node.onboarding.trust.login import KeyRefused, open_session, prove_key
from gpu_node.onboarding.trust.password import Secret, typed
from gpu_node.onboarding.trust.password_logins import refuse_passwords
from gpu_node.onboarding.trust.session import Session

STAGES = ("contact", "pre-flight", "entry")
SSH_USER = "root"
_REFUSED = "its sshd accepts no key of this machine"


@dataclass(frozen=True)
class Request:
    """A server's name, and how to reach it; None where the command line does not specify it."""

    name: str
    address: str | None = None
    user: str | None = None
    port: int | None = None
    group: str | None = None
    # Of the only host key that is accepted.
    fingerprint: str | None = None


@dataclass(frozen=True)
class Options:
    """The fingerprints of accepted host keys, the password, and what may be changed."""

    accept: tuple[str, ...] = ()
    secret: Secret | None = None
    disable_password: bool = False
    dry: bool = False


def _check_characters(request: Request) -> None:
    """Raise Stopped for text that is not UTF-8: neither sshd nor a journal can take it."""
    for each in (request.name, request.address, request.user, request.group):
        if each and visible(each) != each:
            why, allowed = "control characters, or bytes that are not UTF-8", "plain text"
            raise Stopped(worded(quoted(visible(each)), why, allowed))


class Admission:
    """One server's way into the inventory."""

    def __init__(
        self, site: Site, request: Request, options: Options, console: UserConsole
    ) -> None:
        self.site, self.request, self.options, self.console = site, request, options, console
        self.cluster = site.cluster()
        self.journal = self._begun()
        # What this run has changed so far, in words.
        self._changed: list[str] = []
        # What was typed last at the prompt: a dry run, which installs no key, logs in by it again.
        self._typed: Secret | None = None

    def _begun(self) -> Journal:
        """Return how the server is reached: by the request, else the file, else the journal."""
        before, request = journal.read(self.site, self.request.name), self.request
        _check_characters(request)
        address = request.address or (before.address if before else None)
        if address is None and request.name in self.cluster.hosts:
            address = str(self.cluster.data_of(request.name)["ssh_hostname"])
        if address is None:
            then = f"gpu-node onboard {shlex.quote(request.name)} ADDRESS"
            raise Stopped(worded("no address", "", "an address", then))
        user, port = self._login(address, before)
        return Journal(
            name=request.name,
            address=address,
            user=request.user or user,
            port=request.port or port,
            group=request.group or (before.group if before else None),
            pinned=before.pinned if before else (),
        )

    def _login(self, address: str, before: Journal | None) -> tuple[str, int]:
        """Return the user and the port where the command line gives none.

        They are those of the entry or the journal; of a new server those of its alias in
        ssh_config, else the inventory's, else what ssh_config has for every name, else root and 22.
        """
        is_entered = self.request.name in self.cluster.hosts
        if before is not None and not is_entered:
            return before.user, before.port
        try:
            user, port, is_alias = login(address)
        except BadConfig as error:
            raise Stopped(str(error)) from None
        if is_entered:
            level, is_alias = self.cluster.data_of(self.request.name), False
        else:
            level = self.cluster.level(self.request.group)
        users, ports = [level.get("ssh_user"), user], [level.get("ssh_port"), port]
        if is_alias:
            users.reverse()
            ports.reverse()
        return next(filter(None, users), SSH_USER), next(filter(None, ports), SSH_PORT)

    @property
    def is_entered(self) -> bool:
        """Whether the inventory has the server; Refusal where another has its name or address."""
        return entered(self.cluster, self.request.name, self.journal.address)

    def refuse_other_options(self) -> None:
        """Raise Stopped where the command line contradicts the entry of the server."""
        data = self.cluster.data_of(self.request.name)
        asked = {
            "--group": (self.request.group, self.cluster.hosts[self.request.name].group),
            "--user": (self.request.user, data.get("ssh_user") or SSH_USER),
            "--port": (self.request.port, data.get("ssh_port") or SSH_PORT),
        }
        for option, (value, entry) in asked.items():
            if value is not None and value != entry:
                why, then = f"{self.site.file} has it with {entry}", "change it there"
                raise Stopped(f"{option}: {worded(shown(value), why, shown(entry), then)}")

    @property
    def is_unfinished(self) -> bool:
        """Whether its onboarding has begun and not ended."""
        return journal.begun(self.site, self.request.name) is not None

    @property
    def server(self) -> Server:
        """The server, and how the inventory reaches it."""
        given, level = self.journal, self._level()
        key = Path(str(path)) if (path := level.get("ssh_key")) else None
        return Server(given.name, given.address, given.port, given.user, known_hosts(level), key)

    def _level(self) -> Data:
        """Return the inventory's data about the server: of its entry, or else of its group."""
        if self.request.name in self.cluster.hosts:
            return self.cluster.data_of(self.request.name)
        return self.cluster.level(self.journal.group)

    def admit(self) -> Journal:
        """Put the server into the inventory; with --dry only show its entry.

        Raises Stopped; the inventory is then as it was.
        """
        self._refuse_early()
        host_key = self._contact()
        with self._session(host_key) as session:
            text = self.site.text()
            new, proposal = self._preflight(session, host_key, text)
            self._enter(session, text, new, proposal)
        return self.journal

    def _refuse_early(self) -> None:
        """Raise Refusal where the cluster file cannot take the server, whatever it is.

        The first contact puts this machine's key on the server, and its host key into known_hosts.
        """
        text, given = self.site.text(), self.journal
        trial = expected(self.cluster, given)
        if trial is None:
            check_place(self.cluster, text, given.name, given.address)
        else:
            composed(self.site.file, text, trial)

    def _contact(self) -> str:
        """Verify the server's host key, and have the server accept this machine's key."""
        SUDO.be_typed()
        self.console.stage(STAGES[0], f"first contact with {self.server.at}")
        chosen, keys = self._host_key(self.console.asks)
        self._let_in(chosen, keys)
        return chosen

    def _host_key(self, asks: Callable[[str], bool] | None) -> tuple[str, list[PKey]]:
        """Return the host key to trust, as `kind key`, and all that the server offers."""
        keys = contact.offered(self.server)
        accept = contact.accepted(self.server, keys, self.request.fingerprint, self.options.accept)
        return contact.choose(self.server, keys, accept, asks), keys

    def _let_in(self, chosen: str, keys: Sequence[PKey]) -> None:
        """Pin the host key; where no key logs in, install this machine's key by the password."""
        server = self.server
        with self._session(chosen) as session:
            if refusal := session.sudo_refusal():
                raise Stopped(refusal)
            if self.options.dry:
                return
            self._pin(server, chosen, keys)
            if install_key(session, public_key(server)):
                self._changed.append("this machine's key was put into its authorized_keys")
                self.console.say(f"  this machine's key is let in as {server.user}")
            prove_key(server, chosen)

    def _pin(self, server: Server, chosen: str, keys: Sequence[PKey]) -> None:
        """Pin the host key; record which names are new in known_hosts, so that remove undoes it.

        The journal is first: a run that is killed between the two leaves no line that it lacks.
        """
        with deferred():
            own = contact.pinned_newly(server, chosen, keys)
            pinned = tuple(dict.fromkeys((*self.journal.pinned, *own)))
            self.journal = self.journal.model_copy(update={"pinned": pinned})
            journal.write(self.site, self.journal)
            if contact.pin(server, chosen, keys):
                self._changed.append("its host key was pinned")

    def let_in_again(self, verifies: bool) -> bool:
        """Check that an entered server accepts this machine's key; return whether it must join.

        It must join where its onboarding is unfinished, and where its key was missing: the server
        may have been reinstalled. With --dry the stages are listed; `verifies` is whether a job is
        one of them. Raises Stopped; the report shows why a member cannot be reached.
        """
        SUDO.be_typed()
        begun, console, server = self.is_unfinished, self.console, self.server
        console.stage(STAGES[0], f"does {server.at} still let this machine in?")
        try:
            chosen, keys = self._host_key(console.asks if begun else None)
            refused = _is_refused(server, chosen)
        except ContactError:
            if begun:
                console.say("  it cannot be asked")
                raise
            console.say("  it cannot be asked; the report shows why")
            return False
        if refused:
            self._repeat_contact(begun, chosen, keys)
        else:
            console.say("  it does")
            if begun and not self.options.dry:
                contact.pin(server, chosen, keys)
        if self.options.dry and (begun or refused):
            self._list_stages(is_let_in=not refused, verifies=verifies)
        return begun or refused

    def _repeat_contact(self, begun: bool, chosen: str, keys: Sequence[PKey]) -> None:
        """Install this machine's key again by the password; Stopped where there is none."""
        console = self.console
        if self.options.secret is None and not console.is_attended:
            then = (
                "give a password (GPU_NODE_PASSWORD, --password-stdin or a terminal), and its key "
                "is let in again"
            )
            raise Stopped(worded("an sshd that accepts no key of this machine", then=then))
        if self.options.dry:
            console.say(f"  {_REFUSED}: with the password it would be let in again")
            return
        console.say(f"  {_REFUSED}")
        if not begun:
            question = f"Let its key in again, and deploy {self.request.name}?"
            console.confirm(question, "that its key is let in again")
        self._let_in(chosen, keys)

    def _list_stages(self, *, is_let_in: bool, verifies: bool) -> None:
        """Show which stages of an entered server are done, and which the next run executes."""
        contact_stage = STAGES[:1]
        done = [*(contact_stage if is_let_in else ()), *STAGES[1:]]
        joining = stages_of(self.site, self.request.name, verifies)
        next_run = [*(() if is_let_in else contact_stage), *joining]
        self.console.print(
            f"{self.site.file} has it already; done before: {', '.join(done)}; would be done now: "
            f"{', '.join(next_run)}\n"
        )

    def disable_passwords(self) -> None:
        """Disable password logins in the server's sshd; its key and host key are known by now."""
        server = self.server
        host_key = contact.choose(server, contact.offered(server), None, None)
        with open_session(server, host_key) as session:
            if refuse_passwords(session, host_key):
                self.console.say(f"{server.name}: its sshd accepts no passwords any more")

    def _session(self, host_key: str) -> Session:
        """Open a session by key, or else by the password; only then the password is asked for."""
        server = self.server
        prompt = typed(server.login)

        def ask() -> Secret | None:
            self._typed = prompt()
            return self._typed

        return open_session(server, host_key, self.options.secret or self._typed or ask)

    def _preflight(self, session: Session, host_key: str, text: str) -> tuple[str, Proposal]:
        """Examine the server and its paths to the others; return the new text of the file.

        Raises Stopped where it cannot be a member.
        """
        self.console.stage(STAGES[1], "can it be a member? Nothing is changed")
        given = self.journal
        defaults = self.cluster.defaults
        folders = [each["path"] for each in defaults.get("workspaces") or ()]
        if defaults.get("workspace_path"):
            folders.insert(0, defaults["workspace_path"])
        looked = look(
            lambda script, seconds: session.as_root(script, seconds).out,
            str(self.site.inventory) if self.cluster.hosts else None,
            given,
            [host_key],
            tuple(map(str, folders)),
            self._level(),
        )
        refused, new = None, ""
        try:
            proposal = proposed(self.cluster, given, looked.gpus, looked.interface)
            new = composed(self.site.file, text, proposal)
        except Refusal as error:
            refused = error
        wanted = load(self.site.file, new).hosts[given.name].wanted if new else None
        report = looked.report(wanted)
        findings = report.hosts[given.name].findings
        stops = [f"{each.rule}: {each.subject}" for each in findings if bars_joining(each)]
        self._show(report, bool(stops))
        if stops:
            then = "see the fixes above, then run the same command again"
            raise Stopped(worded(counted(len(stops), "stop"), ", ".join(stops), then=then))
        if refused:
            raise refused
        self._refuse_other_files(proposal)
        return new, proposal

    def _show(self, report: Report, is_stopped: bool) -> None:
        """Show the findings about the server, and of those that stop it what is changed already."""
        counts = [of_severity(n, each) for each, n in report.summary.findings.items() if n]
        but = f"the inventory is unchanged, but {', and '.join(self._changed)}"
        ending = f"; {but if self._changed else 'nothing was changed'}" if is_stopped else ""
        line = Text(f"findings: {', '.join(counts) or 'none'}{ending}", style="bold")
        self.console.show(Group(*full.findings(View(report)), line))

    def _refuse_other_files(self, proposal: Proposal) -> None:
        """Raise Stopped where its group has another ssh key or known_hosts than was used."""
        used, level = self._level(), self.cluster.level(proposal.group)
        if any(used.get(key) != level.get(key) for key in ("ssh_key", "ssh_known_hosts_file")):
            found = f"group {proposal.group} with its own ssh key or known_hosts"
            raise Stopped(worded(found, then=f"give --group {proposal.group}"))

    def _enter(self, session: Session, text: str, new: str, proposal: Proposal) -> None:
        """Show the new entry, and write it unless the file has changed meanwhile."""
        self.console.stage(STAGES[2], f"its entry in {self.site.file}")
        for reason in proposal.reasons:
            self.console.say(f"  {reason}")
        self.console.print(editing.diff(text, new, str(self.site.file)))
        if self.options.dry:
            self._foresee(session, new)
            return
        self.console.confirm(
            f"Write this to {self.site.file}, and deploy {self.request.name}?", "the entry"
        )
        with deferred():
            journal.write(self.site, self.journal)
            editing.write(self.site.file, text, new)

    def _foresee(self, session: Session, new: str) -> None:
        """Show what the rules find on the server, and what the others would get."""
        report, lines = forecast(session, load(self.site.file, new), self.request.name)
        self._show(report, is_stopped=False)
        for line in lines:
            self.console.print(f"{line}\n")


def _is_refused(server: Server, host_key: str) -> bool:
    try:
        prove_key(server, host_key)
    except KeyRefused:
        public_key(server)  # raises the better error where this machine has no key to offer
        return True
    return False
