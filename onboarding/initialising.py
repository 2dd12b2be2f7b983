"""One run of `gpu-node init`: the nodes, their keys, the two files, and the first report."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.report import table
from gpu_node.drift.report.model import Report, report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from gpu_node.facts.ask.gather import ask_each
from gpu_node.facts.ask.sudo import asks_password
from gpu_node.facts.probe.peers import SSH_PORT
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.errors import worded
from gpu_node.inventories.interrupt import LINE, at_once, deferred
from gpu_node.inventories.next_command import ASKING, next_command
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.new_site import (
    ENVIRONMENTS,
    Access,
    NewNode,
    NewSite,
    environments,
    nodes_of,
)
from gpu_node.onboarding.trust.host_keys import Server
from gpu_node.onboarding.trust.keys import own_keys, without_passphrase

Keep = Callable[[Report, str], object]


class Initialising:
    """Writes the inventory of a folder and reports on its nodes, which `ask` reads.

    `keep` takes the report, by the inventory's name, and what it is made from.
    `again`: the inventory is there, and only gets what is found.
    """

    def __init__(
        self,
        folder: Path,
        access: Access,
        console: UserConsole,
        ask: Callable[[str], dict[str, Seen]],
        again: bool = False,
        keep: Keep = lambda report, inventory: None,
    ) -> None:
        self.key = without_passphrase(access.key, console)
        self.site = NewSite(folder, replace(access, key=self.key), console, again)
        self.console, self.ask, self.again, self.keep = console, ask, again, keep

    def run(self, words: Sequence[str]) -> int:
        """Return the exit code of the first report; raises what `FAILURES` lists."""
        if self.again:
            with at_once():
                return self._reported(self.site.entered())
        nodes = nodes_of(words) if words else self._asked()
        if SUDO.is_awaited and self.key is None and not any(map(_has_key, nodes)):
            why, then = "the password for sudo is of no use without one", "ssh-keygen -t ed25519"
            found = (
                "no key to log in with, neither in an agent nor, without a passphrase, in ~/.ssh"
            )
            raise Stopped(
                worded(found, why, "one, or --key FILE", f"{then}, ssh-copy-id USER@NODE")
            )
        with at_once():
            self.site.create(nodes)
        with at_once(lambda: f"{LINE}; next: {self._drift}"):
            self.console.say(f"wrote {self.site.file} and {self.site.inventory.name}")
            return self._reported(nodes)

    @property
    def _drift(self) -> str:
        """The command that reports on the nodes."""
        return next_command("drift", str(self.site.file))

    @property
    def _again(self) -> str:
        """The command that reports on the nodes, and writes what it finds into the cluster file."""
        return next_command("init", str(self.site.folder), "--again")

    def _reported(self, nodes: Sequence[NewNode]) -> int:
        """Report on the nodes, write what was found, and return the exit code of the report."""
        inventory = str(self.site.file)
        seen = self.ask(inventory)
        places: dict[str, str] = {}
        states = {name: each.state for name, each in seen.items() if each.state is not None}
        if states:
            answers = ask_each(inventory, list(states), [ENVIRONMENTS])
            places = {
                name: each.sections[ENVIRONMENTS.name].text
                for name, each in answers.items()
                if not isinstance(each, str) and each.sections[ENVIRONMENTS.name].rc == 0
            }
            with deferred():  # a file that is half written would stay
                self.site.suggest(nodes, states, places)
        report = report_of(inventory, seen)
        self.keep(report, inventory)
        elsewhere = {name: environments(text) for name, text in places.items()}
        view = View(report, elsewhere=elsewhere)
        self.console.show(table.render(view, self.console.width))
        refusals = [each.ssh.sudo_refusal for each in states.values() if each.ssh.sudo_refusal]
        if refusals:
            self.console.say(self._after_refusal(refusals))
        elif states:
            unread = " and ".join(name for name in seen if name not in states)
            later = f"; when {unread} can be read: {self._again}, which writes what they have"
            self.console.say(
                f"next: say in {self.site.file} what the nodes should be, then: {self._drift}"
                f"{later if unread else ''}"
            )
        elif any(each.reached for each in seen.values()):
            self.console.say(f"next: do what the report names for each node, then: {self._again}")
        else:
            self.console.say(
                f"next: make a login without a password work (ssh-copy-id, or `key` and `user` in "
                f"{self.site.file}), then: {self._again}"
            )
        return report.exit_code()

    def _after_refusal(self, refusals: Sequence[str]) -> str:
        """Return what comes next where sudo refuses: the same command would be refused again."""
        first, again = "do what ssh.sudo-refused names, then: ", self._again
        if not SUDO.is_given and any(map(asks_password, refusals)):
            first, again = "", f"{again} {ASKING}"
        return (
            f"next: {first}{again}; or remove sudo: true from {self.site.file}, and report as the "
            f"SSH user: {self._drift}"
        )

    def _asked(self) -> list[NewNode]:
        """Return the nodes that a user at a terminal names, one a line."""
        if not self.console.is_attended:
            then = shlex.join(["gpu-node", "init", str(self.site.folder), "a100-01=10.0.0.4"])
            raise Stopped(worded("no node", "no terminal to ask", "NAME=ADDRESS words", then))
        words: list[str] = []
        while True:
            word = click.prompt(
                "A node, as NAME=ADDRESS (Enter: no more)", default="", show_default=False, err=True
            )
            if not word.strip():
                if words:
                    return nodes_of(words)
                raise Stopped(worded("no node", "nothing was written", "one or more"))
            try:
                nodes_of([*words, word.strip()])
                words.append(word.strip())
            except Stopped as error:
                self.console.say(str(error))


def _has_key(node: NewNode) -> bool:
    """Whether this machine has a key to try at a node."""
    with own_keys(Server(node.name, node.address, SSH_PORT, "", Path())) as keys:
        return bool(keys)
