"""sudo with a password, which a user types once for all nodes: which nodes get it, and how.

It is in no command line, no environment and no file: it is the first line of a command's stdin, or
in the probe's script, which comes by stdin. Where sudo does not ask for it, root's shell drops that
line, and all others up to a random mark.
"""

from __future__ import annotations

import re
import resource
import secrets
import shlex
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from gevent.lock import BoundedSemaphore

from gpu_node.inventories.connection.capped import Answer

SECONDS = 20
# Nodes that are silent before one accepts the password; they are asked one after the other.
_MOST_SILENT = 3
# With -k no later command of that session becomes root without the password.
_ASKING = "sudo -H -k -S -p '' "
_NOT_ASKING = re.compile(r"sudo (-H )?-n ")
_UNUSED = "the password was not read"
# Where sudo asks for none it gets none: with log_input it would write it into a file. After the
# password its stdin ends: more lines would be more attempts, which lock an account.
_TRY = "env LC_ALL=C sh -c " + shlex.quote(
    f"if sudo -H -k -n sh -c : </dev/null >/dev/null 2>&1; then echo {_UNUSED}; exit; fi\n"
    f"exec {_ASKING}sh -c 'if IFS= read -r each; then echo {_UNUSED}; fi'"
)
_WRONG = re.compile(r"try again\.|incorrect (password|authentication) attempt")
_WRONG_NOW = re.compile(r"^sudo(-rs)?: .*incorrect (password|authentication) attempt.*", re.M)

_REFUSES = "sudo refuses this password: "

# Runs a command with a stdin on a node.
Run = Callable[[str, bytes], Answer]


class Feed(NamedTuple):
    """How sudo of a node gets the password; `refusal` is why it does not take it, else empty."""

    refusal: str
    password: str = ""
    mark: str = ""

    @property
    def lines(self) -> str:
        """What comes before the command's own stdin."""
        return f"{self.password}\n{self.mark}"

    @property
    def shell(self) -> str:
        """A command that runs the script of its stdin as root."""
        if self.refusal:
            return f"{{ printf '%s\\n' {shlex.quote(self.refusal)}; exit 1; }}"
        return f"{_ASKING}sh -c {shlex.quote(self.behind('exec sh'))}"

    def behind(self, script: str) -> str:
        """Return a script of root that drops the lines first."""
        dropped = f'while IFS= read -r gn_fed && [ "$gn_fed" != {self.mark} ]; do :; done'
        return f"{dropped} && {script}"

    def line(self, command: str) -> str:
        """Return a command line of `sudo -n` as one that reads the password."""
        return _NOT_ASKING.sub(_ASKING, command, count=1)


class SudoPassword:
    """The password, and whether sudo of each node takes it, by the node's name.

    Until one node has accepted it, the nodes are asked one after the other, and a wrong one is
    tried on no further node: a central account would be locked.
    """

    def __init__(self) -> None:
        self._text = ""
        # What asks a user for it, until that is done.
        self._ask: Callable[[], str] | None = None
        # Empty: accepted; None: sudo does not ask for one; else the refusal.
        self._answers: dict[str, str | None] = {}
        self._turn = BoundedSemaphore()
        self._turns: dict[str, BoundedSemaphore] = defaultdict(BoundedSemaphore)
        # The node that refused it before any had accepted it, and the words.
        self.wrong: tuple[str, str] | None = None
        self._silent = 0

    @property
    def is_given(self) -> bool:
        """Whether a user has typed one, or is to type it."""
        return bool(self._text) or self.is_awaited

    def asks(self, node: str) -> bool:
        """Whether sudo of a node has taken it."""
        return self._answers.get(node) == ""

    @property
    def is_awaited(self) -> bool:
        """Whether it is still to be typed."""
        return self._ask is not None

    def ask_by(self, ask: Callable[[], str]) -> None:
        """Have `ask` return what a user types, once the first node is to be asked."""
        self._ask = ask

    def be_typed(self) -> None:
        """Ask for the password if that is still to be done, where no other greenlet waits."""
        ask, self._ask = self._ask, None
        if ask is not None:
            self.give(ask())

    def give(self, text: str) -> None:
        """Take the password that was typed; no core dump of this process or a child has it."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        self._text = text

    def to_child(self) -> tuple[str, dict[str, str | None]]:
        """Return what a child process gets by a pipe, as JSON."""
        return self._text, self._answers

    def from_parent(self, text: str, answers: dict[str, str | None]) -> None:
        """Take what `to_child` has made."""
        self._text, self._answers = text, answers

    def feed(self, node: str, run: Run) -> Feed | None:
        """Return how sudo of a node gets the password; None: it needs none, or none was typed.

        `run` tries the password there, once.
        """
        if not self._text:
            return None
        with self._turns[node]:
            if node not in self._answers:
                with self._turn:
                    if not self._is_right:
                        self._answers[node] = self._tried(node, run)
            if node not in self._answers:
                self._answers[node] = self._tried(node, run)
        answer = self._answers[node]
        return None if answer is None else Feed(answer, self._text, secrets.token_hex(8))

    def heard(self, node: str, words: str) -> None:
        """Take what a failed command printed; where sudo refuses now, it is not tried again."""
        if self.asks(node) and (line := _WRONG_NOW.search(words)):
            self._answers[node] = f"{_REFUSES}{line[0]}"

    @property
    def _is_right(self) -> bool:
        return "" in self._answers.values()

    def _tried(self, node: str, run: Run) -> str | None:
        if self.wrong is not None:
            return f"this password was not tried: sudo on {self.wrong[0]} refuses it"
        if not self._is_right and self._silent >= _MOST_SILENT:
            return f"this password was not tried: sudo on {self._silent} nodes is silent"
        try:
            answer = run(_TRY, f"{self._text}\n".encode())
        except TimeoutError:
            self._silent += 1
            return f"no answer within {SECONDS} s"
        except Exception as error:  # the connection broke; a second attempt might be one too many
            return str(error) or type(error).__name__
        if answer.code == 0:
            return None if _UNUSED.encode() in answer.of("stdout") else ""
        words = answer.of("stderr").decode("utf-8", "replace").strip()
        if self._text in words:
            return "it prints the password, and nothing else is shown"
        line = next((each for each in words.split("\n") if _WRONG.search(each)), "")
        if not line:
            return words or f"exit {answer.code}, no output"
        refusal = f"{_REFUSES}{line}"
        if not self._is_right:
            self.wrong = node, refusal
        return refusal


SUDO = SudoPassword()
