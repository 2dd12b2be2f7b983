"""Output of a command: results on stdout, stages and questions on stderr."""

import sys
from collections.abc import Callable

import click
from rich.console import Group, RenderableType
from rich.text import Text

from gpu_node.drift.report.formats import plain, printed
from gpu_node.inventories.errors import Unconfirmed, worded
from gpu_node.inventories.escape import visible_lines


class UserConsole:
    """What a command prints and asks; `yes` confirms changes."""

    def __init__(self, yes: bool = False) -> None:
        self.yes = yes
        # The current stage, for the line that is printed on Ctrl-C.
        self.at = ""
        self._out = plain(sys.stdout)

    @property
    def is_attended(self) -> bool:
        """Whether a user at a terminal can answer questions."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def asks(self) -> Callable[[str], bool] | None:
        """The function that asks the user yes or no; None without a terminal."""
        return self._ask if self.is_attended else None

    @property
    def width(self) -> int:
        """Columns of stdout."""
        return self._out.width

    def stage(self, name: str, words: str) -> None:
        """Print the heading of a stage."""
        self.at = f"in the stage {name!r}"
        self.say(f"== {name}: {words}")

    def _ask(self, question: str) -> bool:
        return click.confirm(visible_lines(question), err=True)

    def print(self, text: str) -> None:
        """Print a text of whole lines as a result."""
        click.echo(visible_lines(text, most=len(text) + 1), nl=False, file=sys.stdout)

    def say(self, line: str) -> None:
        """Print a line of progress."""
        click.echo(visible_lines(line), err=True)

    def show(self, what: RenderableType) -> None:
        """Show a result; plain lines where stdout is no terminal."""
        if isinstance(what, str):
            what = Text(visible_lines(what))
        # A Text that is printed by itself is folded, whatever it says.
        text = printed(Group(what), self._out)
        click.echo(text, nl=False, file=sys.stdout, color=self._out.is_terminal)

    def confirm(
        self, question: str, what: str, kept: str = "nothing was written to the inventory"
    ) -> None:
        """Ask whether to continue, unless -y was given; raises Unconfirmed where the answer is no.

        `what` names the change for the error without a terminal, `kept` what stays after a no.
        """
        if self.yes:
            return
        if not self.is_attended:
            raise Unconfirmed(worded(f"no terminal to confirm {what}", "", "a terminal, or -y"))
        if not self._ask(question):
            raise Unconfirmed(worded("no confirmation", kept, "y"))
