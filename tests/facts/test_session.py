"""What the probe makes of an answer that is none: one reason, in words, for the whole node."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host
from pyinfra.api.host import HostData
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import CommandOutput, OutputLine

from gpu_node.facts.ask.session import ProbeError, probe
from gpu_node.facts.ask.session import whole as whole_answer
from gpu_node.facts.node import NodeProbe
from gpu_node.facts.probe.base import as_argument
from gpu_node.facts.probe.frame import MARK, NOT_WHOLE, READER, by_stdin
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, read, render
from tests.shells import as_lines, at_an_empty_home, run

# What an inventory says of the node.
NOTHING = HostData(cast(Host, None))


class Connector:
    """Answers every command in the same way."""

    def __init__(self, status: bool, lines: list[str], errors: tuple[str, ...] = ()) -> None:
        printed = [OutputLine("stdout", line) for line in lines]
        self.answer = status, CommandOutput([*printed, *(OutputLine("stderr", e) for e in errors)])

    def run_shell_command(self, *_: object, **__: object) -> tuple[bool, CommandOutput]:
        """What a node answers."""
        return self.answer


class Broken:
    """A connection that ends in an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def run_shell_command(self, *_: object, **__: object) -> tuple[bool, CommandOutput]:
        """Raise it."""
        raise self.error


def reason(connector: Any) -> str:
    """Why there is no state."""
    host = cast(Host, SimpleNamespace(connector=cast(BaseConnector, connector), data=NOTHING))
    with pytest.raises(ProbeError) as caught:
        probe(host)
    return str(caught.value)


@pytest.fixture(scope="module")
def whole() -> list[str]:
    """A true answer, of this machine."""
    return as_lines(run("dash", NodeProbe().command(), env=at_an_empty_home()).stdout)


def test_a_shell_that_exits() -> None:
    """Nothing at all came back, and the exit code is 0: one reason, not one for each section."""
    error = reason(Connector(True, []))
    assert "the login shell ended first, and printed nothing; next: " in error
    assert "getent passwd" in error and "~/.bashrc" in error


@pytest.mark.parametrize("status", [True, False])
def test_a_shell_that_speaks_and_exits(status: bool) -> None:
    """The error has the last line of output."""
    error = reason(Connector(status, ["Welcome", "This account is currently not available.", ""]))
    assert "ended first: This account is currently not available.; next: on its console" in error
    assert "bash: line 1: exec" in reason(Connector(status, [], ("bash: line 1: exec: x",)))


def test_a_start_file_that_is_wrong(tmp_path: Path) -> None:
    """What bash reports has the file and the line; they are the next step."""
    (tmp_path / ".bashrc").write_text('echo "Welcome"\n. ~/.env.sh || exit 1\n')
    (tmp_path / ".env.sh").write_text("if true; then\n  export A=1\n")
    done = subprocess.run(
        ["bash", "-c", "echo never"],
        env={"HOME": str(tmp_path), "SSH_CLIENT": "127.0.0.1 0 22", "SHLVL": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.stdout == "Welcome\n" and done.returncode == 1
    error = reason(Connector(False, done.stdout.split("\n"), tuple(done.stderr.split("\n"))))
    file = tmp_path / ".env.sh"
    assert f"the login shell ended first: {file}: line 3: syntax error" in error
    assert error.endswith(f"; next: correct {file}: bash -n {file}")


def test_what_a_shell_prints_is_no_command_of_ours() -> None:
    """The advised command has one word of it; the error has no more of it than fits a report."""
    assert "bash -n '/tmp/x; reboot #'" in reason(Connector(False, ["/tmp/x; reboot #: line 1: a"]))
    assert len(reason(Connector(False, [f"/{'x' * (1 << 20)}: line 1: a"]))) < 3000


def sent(script: str) -> bytes:
    """What goes to stdin of a node for a script."""
    return "".join(f"{line}\n" for line in by_stdin(script)).encode()


@pytest.mark.parametrize("eaten", ["read -r line", "cat >/dev/null", "head -c 200 >/dev/null"])
def test_a_login_shell_that_reads_stdin(shell: str, eaten: str) -> None:
    """Nothing runs of a script whose beginning is gone, and the reason says what to do."""
    script = "\n".join([*["# a comment"] * 50, "echo half a script ran"])
    answer = as_lines(run(shell, f"{eaten}\n{READER}", stdin=sent(script)).stdout)
    assert answer[0] == NOT_WHOLE and "half a script ran" not in answer
    error = reason(Connector(True, answer))
    assert "next: add </dev/null" in error
    assert error.endswith("(none arrived)") == (eaten == "cat >/dev/null")


def test_a_script_that_is_cut_off(shell: str) -> None:
    """Where the connection ends before the script does, nothing runs."""
    whole = sent("echo half a script ran\n" * 9)
    answer = as_lines(run(shell, READER, stdin=whole[:-30]).stdout)
    assert answer[0] == NOT_WHOLE and "half a script ran" not in answer
    error = reason(Connector(True, answer))
    assert "start file" not in error and "lost the end of its script" in error
    assert f"({len(whole) - 30} bytes of its script arrived, from '# @@gpu-node script" in error
    assert as_lines(run(shell, READER, stdin=whole).stdout) == ["half a script ran"] * 9


@pytest.mark.parametrize("mark", [NOT_WHOLE, f"{MARK} done", f"{MARK} begin host.name 0 raw 3"])
def test_a_users_text_is_no_mark_of_ours(mark: str) -> None:
    """A user may write our marks into a file that a section prints: only its own text has them."""
    theirs = Section("a.file", f"printf '%s\\n' {shlex.quote(mark)} {shlex.quote(NOT_WHOLE)}")
    sections = [theirs, Section("a.next", "echo still here")]
    lines = as_lines(run("dash", READER, stdin=sent(render(sections))).stdout)
    found = read(whole_answer(True, lines, []), sections)
    assert found.take("a.file", lines_of) == [mark, NOT_WHOLE]
    assert found.take("a.next", str) == "still here"


def test_a_script_that_does_not_arrive_is_sent_again(whole: list[str]) -> None:
    """Once: where a start file reads it, the second one does not arrive either."""
    connector = Connector(True, [NOT_WHOLE, "0"])
    answers = [connector.answer, Connector(True, whole).answer]
    sends = SimpleNamespace(run_shell_command=lambda *_, **__: answers.pop(0))
    host = SimpleNamespace(connector=sends, data=NOTHING)
    assert probe(cast(Host, host)).host.name and not answers
    answers += [connector.answer, connector.answer]
    assert "start file" in reason(sends) and not answers


def test_a_login_that_shows_or_exports_all() -> None:
    """SHELLOPTS does so in each bash; a script may have a password for sudo."""
    script = 'word=geheim; env; : "$word"'
    done = run("bash", READER, stdin=sent(script), env={"SHELLOPTS": "xtrace:verbose:allexport"})
    assert done.returncode == 0 and b"PATH=" in done.stdout
    assert b"geheim" not in done.stdout + done.stderr


def test_a_script_longer_than_an_argument(shell: str) -> None:
    """Linux takes 128 KiB of one; the probe of a large cluster has more."""
    script = "\n".join([*[f": {'x' * 90}"] * 3000, "echo all of it"])
    assert as_lines(run(shell, READER, stdin=sent(script)).stdout) == ["all of it"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), "no answer to the probe within"),
        (EOFError(), "the connection broke: EOFError"),
        (OSError("Connection reset by peer"), "the connection broke: Connection reset by peer"),
    ],
)
def test_a_connection_that_breaks(error: Exception, expected: str) -> None:
    """Whatever class the transport raises."""
    assert reason(Broken(error)).startswith(expected)


def test_a_fact_is_one_argument(shell: str) -> None:
    """pyinfra's own facts have no stdin: a script that is too long is compressed."""
    command = NodeProbe().command()
    assert len(shlex.quote(shlex.quote(command))) < 128 * 1024
    assert NodeProbe().process(as_lines(run(shell, command, env=at_an_empty_home()).stdout))
    assert as_argument("echo short") == "echo short"
