"""Nothing that a node sends steers the terminal on which pyinfra prints it."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import gevent
import pytest
from pyinfra.api import Config, Inventory, State, output
from pyinfra.api.util import log_host_command_error, print_host_combined_output
from pyinfra.connectors.util import CommandOutput, OutputLine, run_local_process
from pyinfra_cli.exceptions import UnexpectedInternalError, WrappedError
from pyinfra_cli.log import LogFormatter
from typing_extensions import override

from gpu_node.inventories import pyinfra_patches, terminal
from gpu_node.inventories.connection.connector import Connector
from tests.fork_server import BIN, REPOSITORY
from tests.hostile_nodes import reply
from tests.onboarding.serving import PASSWORD, at_home, serving

HOSTILE = "a\x1b]0;owned\x07b\x1b[2J\x9b31m\u202ec\x1b[31mred\rd\u200be\udcff"
SHOWN = r"a\x1b]0;owned\x07b\x1b[2J\x9b31m\u202ec\x1b[31mred\rd\u200be\udcff"
# What pyinfra's own styles are: bold, or one of eight colours, and the end of them.
STYLE = re.compile(r"\x1b\[(?:0|1|3[0-7])m")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Everything that pyinfra's command would print: its log and its echo."""
    lines: list[str] = []

    class Handler(logging.Handler):
        @override
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(LogFormatter().format(record))

    logger = logging.getLogger("pyinfra")
    monkeypatch.setattr(output, "_echo", click.echo)
    monkeypatch.setattr(output, "_format_text", click.style)
    monkeypatch.setattr(click, "echo", lambda message="", **_: lines.append(str(message)))
    handler = Handler()
    logger.addHandler(handler)
    pyinfra_patches.install()
    yield lines
    logger.removeHandler(handler)


def host() -> SimpleNamespace:
    """Return what stands for a host: its prefix, styled as pyinfra does."""
    return SimpleNamespace(print_prefix=f"[{output.format_text('v100-01', bold=True)}] ")


def plain(lines: list[str]) -> str:
    """Return what was printed, without pyinfra's own styles."""
    return STYLE.sub("", "\n".join(lines))


def test_what_a_command_prints(shown: list[str]) -> None:
    """While it runs: print_output."""
    output.echo(f"{host().print_prefix}{HOSTILE}", err=True)
    assert shown == [f"[\x1b[1mv100-01\x1b[0m] {SHOWN}"]


def test_the_output_of_a_failed_command(shown: list[str]) -> None:
    """It is logged, its errors in red, and the red is pyinfra's."""
    lines = [OutputLine("stdout", HOSTILE), OutputLine("stderr", HOSTILE)]
    print_host_combined_output(host(), CommandOutput(lines))  # type: ignore[arg-type]
    assert plain(shown).count(f"[v100-01] {SHOWN}") == 2
    assert f"] \x1b[31m{SHOWN}\x1b[0m" in shown[1]


def test_an_error_of_the_connection(shown: list[str]) -> None:
    """It may quote what the node answered."""
    log_host_command_error(host(), OSError(HOSTILE))  # type: ignore[arg-type]
    logging.getLogger("pyinfra").warning("Failed: %s", HOSTILE)
    assert "\x1b]" not in plain(shown)
    assert f"Failed: {SHOWN}" in plain(shown)


def test_lines_cannot_look_like_another_hosts(shown: list[str]) -> None:
    """A message of several lines looks different from several messages."""
    logging.getLogger("pyinfra").error(f"{host().print_prefix}bad\n    [a100-01] Success")
    assert plain(shown).splitlines()[1] == "      |     [a100-01] Success"


def test_errors_that_end_pyinfra(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected ones are logged; of others the traceback is printed, and written to a file."""
    monkeypatch.chdir("/tmp")
    WrappedError(ValueError(HOSTILE)).show()
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        unexpected = UnexpectedInternalError(error)
    assert unexpected.get_exception() == f"ValueError: {SHOWN}\n"
    assert SHOWN in plain(shown)
    assert shown[-1].startswith("\x1b[33m--> \x1b[31m\x1b[1munknown error\x1b[0m: ")


def test_an_error_that_ends_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Python's own traceback quotes the error."""
    terminal.show_error(ValueError, ValueError(HOSTILE), None)
    assert capsys.readouterr().err == f"ValueError: {SHOWN}\n"


def test_an_error_that_ends_a_greenlet(capsys: pytest.CaptureFixture[str]) -> None:
    """gevent prints it by itself."""
    pyinfra_patches.install()

    def fail() -> None:
        raise ValueError(HOSTILE)

    gevent.spawn(fail).join()
    output = capsys.readouterr().err
    assert f"ValueError: {SHOWN}\n" in output and "\x1b" not in output


def test_bytes_of_this_machine_that_are_no_text(shown: list[str]) -> None:
    """With @local pyinfra would end there, and what follows would be lost."""
    code, printed = run_local_process(r"printf 'a\n\377b\nc'; printf '\377' >&2")
    assert (code, printed.stdout_lines, printed.stderr) == (0, ["a", r"\xffb", "c"], r"\xff")


def test_long_lines_are_cut(shown: list[str]) -> None:
    """A node cannot fill the terminal with one line."""
    output.echo("x" * 1_000_000)
    assert len(shown[0]) < 5000
    assert shown[0].endswith("more characters)")


ON_A_TERMINAL = "import pty, sys; sys.exit(pty.spawn([*sys.argv[1:], '-vvv']) >> 8)"
DEPLOY = r"""
from pyinfra.operations import server
server.shell(
    name="Print",
    commands=[
        r"printf 'A\033]0;owned\007B\033[31mred\033[8mC\r\n'; printf 'E\033[2J\n' >&2; exit 1",
    ],
    _ignore_errors=True,
)
"""


INVENTORY = """
from gpu_node.inventories.pyinfra_groups import groups_of
groups_of(__file__)
nodes = ["@local"]
"""
CLUSTER = "cluster: one\ngroups: {a100: {}}\nhosts: {a100-01: {address: 192.0.2.1, group: a100}}\n"


def test_on_a_terminal(tmp_path: Path) -> None:
    """As pyinfra's own command prints it, with an inventory of ours."""
    nodes = tmp_path / "nodes.py"
    nodes.write_text(INVENTORY)
    (tmp_path / "nodes.yml").write_text(CLUSTER)
    (tmp_path / "deploy.py").write_text(DEPLOY)
    done = subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL, BIN / "pyinfra", nodes, tmp_path / "deploy.py", "-y"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYINFRA_PROGRESS": "off", "PYTHONPATH": str(REPOSITORY / "src")},
        timeout=60,
        check=True,
    )
    text = STYLE.sub("", done.stdout.decode())
    assert r"A\x1b]0;owned\x07B\x1b[31mred\x1b[8mC" in text
    assert r"E\x1b[2J" in text
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\x1b[1mReady" not in text and "Ready:" in text


def test_it_is_there_once() -> None:
    """A second call changes nothing."""
    pyinfra_patches.install()
    pyinfra_patches.install()
    filters = logging.getLogger("pyinfra").filters
    assert sum(isinstance(each, terminal.Visible) for each in filters) == 1


@pytest.mark.parametrize("parameters", [0, 8999])
def test_a_style_is_marked_once(parameters: int) -> None:
    """Whatever the secret is: marked twice, a style would reach the terminal with it."""
    code = (
        f"import secrets; secrets.randbelow = lambda most: min(most - 1, {parameters})\n"
        "from gpu_node.inventories import terminal\n"
        'once = terminal._marked("\\x1b[31mred\\x1b[0m")\n'
        "print(terminal._marked(once) == once)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_the_lines_of_a_node_that_sends_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: list[str]
) -> None:
    """The first and the last ones are printed, as it runs and of a failure; a fact has them all."""
    at_home(monkeypatch, tmp_path)
    many = b"".join(b"line %d\n" % number for number in range(100_000))
    with serving(tmp_path / "server") as sshd:
        sshd.accepts_none = True
        sshd.answer = lambda channel, _: reply(channel, many, 1)
        (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{sshd.port} {sshd.host_key}\n")
        known = {"ssh_port": sshd.port, "ssh_user": "root", "ssh_password": PASSWORD}
        known["ssh_known_hosts_file"] = str(tmp_path / "known_hosts")
        inventory = Inventory(([("127.0.0.1", known)], {}))
        (node,) = inventory
        node.connector_cls = Connector
        state = State(inventory, Config())
        node.connect(raise_exceptions=True)
        try:
            done, output = node.run_shell_command("work", print_output=True)
        finally:
            node.disconnect()
        assert state.inventory is inventory
    running = plain(shown)
    shown.clear()
    print_host_combined_output(node, output)
    for text in (running, plain(shown)):
        lines = [line.rpartition("] ")[2] for line in text.splitlines() if "line" in line]
        assert (lines[0], lines[-1]) == ("line 0", "line 99999")
        assert len(lines) == 101 and "... (99900 more lines)" in lines
    assert not done and len(output.stdout_lines) == 100_000
