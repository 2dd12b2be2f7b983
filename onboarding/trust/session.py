"""A session with a server that need not be in the inventory: scripts run as its user or as root."""

import shlex
from dataclasses import dataclass

from paramiko import SSHException, Transport
from typing_extensions import Self

from gpu_node.facts.ask.sudo import why_refused
from gpu_node.inventories.connection.capped import Answer, TooMuch, run
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.escape import visible
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust.host_keys import Server

ROOT = "root"
_SHORT_SECONDS = 20
_SUDO = "env LC_ALL=C sudo -n sh -c "
_GREETING = "gpu-node: a session"


@dataclass(frozen=True)
class Result:
    """How a script ended; undecodable bytes of its output are half surrogates."""

    code: int
    out: list[str]
    err: str


class Session:
    """A login; `by` is "key" or "password". Close it, or use it as a context."""

    def __init__(self, server: Server, transport: Transport, by: str) -> None:
        self.server = server
        self.by = by
        self._transport = transport

    def run(self, script: str, seconds: int, stdin: str = "") -> Result:
        """Run a script as sh of the user, without a terminal.

        Raises ContactError where the connection breaks, or the script does not end in time or
        says too much.
        """
        return self._run(f"sh -c {shlex.quote(script)}", seconds, stdin)

    def as_root(self, script: str, seconds: int, stdin: str = "") -> Result:
        """Run a script as sh of root, by sudo where the user is another."""
        if self.server.user == ROOT:
            return self.run(script, seconds, stdin)
        feed = SUDO.feed(self.server.name, self._tried)
        if feed is None:
            return self._run(f"{_SUDO}{shlex.quote(script)}", seconds, stdin)
        if feed.refusal:
            return Result(1, [], feed.refusal)
        line = feed.line(f"{_SUDO}{shlex.quote(feed.behind(script))}")
        done = self._run(line, seconds, f"{feed.lines}\n{stdin}")
        if done.code != 0:
            SUDO.heard(self.server.name, done.err)
        return done

    def _tried(self, line: str, stdin: bytes) -> Answer:
        return run(self._transport, line, _SHORT_SECONDS, stdin)

    def sudo_refusal(self) -> str:
        """Return why the user cannot become root; empty where it can."""
        done = self.as_root("id -u", _SHORT_SECONDS)
        if done.code == 0 and done.out[-1:] == ["0"]:
            return ""
        refused = why_refused("\n".join([*done.out, done.err]), self.server.user)
        return visible(
            f"{self.server.user} cannot become root ({refused.words}): {refused.reason}; "
            f"{refused.fix}"
        )

    def close(self) -> None:
        """End the session."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def greet(self) -> None:
        """Raise ContactError unless commands run: the shell may be none, the password expired."""
        done = self.run(f"echo '{_GREETING}'", _SHORT_SECONDS)
        if done.out[-1:] != [_GREETING]:
            output = visible(" ".join([*done.out, done.err]).strip()) or "nothing"
            raise ContactError(
                f"{self.server.login} accepts the login but runs no commands; its output: "
                f"{output}; see "
                "the account's shell, and whether its password has expired"
            )

    def _run(self, command: str, seconds: int, stdin: str) -> Result:
        try:
            answer = run(self._transport, command, seconds, stdin.encode("utf-8"))
        except TimeoutError:
            problem = f"did not answer within {seconds} s"
        except TooMuch as error:
            problem = str(error)
        except (SSHException, OSError, EOFError) as error:
            problem = f"broke the connection ({str(error) or type(error).__name__})"
        else:
            if self._transport.is_active() or answer.code >= 0:
                err = answer.of("stderr").decode("utf-8", "surrogateescape").strip()
                return Result(answer.code, _lines(answer.of("stdout")), err)
            problem = "broke the connection in the middle of a command"
        raise ContactError(f"{self.server.login} {problem}; try again")


def _lines(out: bytes) -> list[str]:
    text = out.decode("utf-8", "surrogateescape").removesuffix("\n")
    return text.split("\n") if text else []
