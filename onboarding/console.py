"""The screen: results on stdout, stages and questions on stderr; nobody there means no answer."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click
from rich.console import Console, RenderableType

from onboarding.stopped import Stopped


class Screen:
    """What a command says and asks; `yes` answers what is asked about the inventory."""

    def __init__(self, yes: bool = False) -> None:
        self.yes = yes
        # Where the work is, for who is told that it was stopped.
        self.at = ""
        self._out = Console(file=sys.stdout)
        self._err = Console(file=sys.stderr, highlight=False)

    @property
    def is_attended(self) -> bool:
        """Whether somebody can be asked."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def asks(self) -> Callable[[str], bool] | None:
        """What asks a person for a yes or a no; None where nobody is there."""
        return self._ask if self.is_attended else None

    @property
    def width(self) -> int:
        """Columns of stdout."""
        return self._out.width

    def stage(self, name: str, words: str) -> None:
        """Head a stage."""
        self.at = f"in the stage {name!r}"
        self.say(f"== {name}: {words}")

    def _ask(self, question: str) -> bool:
        return click.confirm(question, err=True)

    def print(self, text: str) -> None:
        """Print a text of whole lines as a result."""
        click.echo(text, nl=False, file=sys.stdout)

    def say(self, line: str) -> None:
        """Say a line about the work."""
        click.echo(line, err=True)

    def show(self, what: RenderableType) -> None:
        """Show a result; plain lines where stdout is no terminal."""
        if self._out.is_terminal:
            self._out.print(what)
            return
        console = Console(width=self._out.width)
        with console.capture() as captured:
            console.print(what)
        lines = captured.get().splitlines()
        click.echo("\n".join(line.rstrip() for line in lines), file=sys.stdout)

    def confirm(self, question: str, what: str) -> None:
        """Ask whether to go on, unless that was said beforehand; Stopped where the answer is no.

        `what` is confirmed by it, for who is told that nobody is there.
        """
        if self.yes:
            return
        if not self.is_attended:
            raise Stopped(f"nobody is there to confirm {what}; give -y")
        if not self._ask(question):
            raise Stopped("not confirmed; nothing was written to the inventory")
