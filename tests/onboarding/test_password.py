"""The password: where it comes from, and that nothing shows it."""

from __future__ import annotations

import getpass
import io
import os
import pickle
import pty
import signal
import subprocess
import sys
import termios
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpu_node.deploy.engine.pyinfra_process import VARIABLE
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust import password as password_module
from gpu_node.onboarding.trust.password import Secret, asked, given, typed

PASSWORD = "hunter2 \xfc'\""
REPOSITORY = Path(__file__).parents[2]
# Asks as the command does, under at_once; prints how it ended and never the password.
ASK = """
import sys
from gpu_node.inventories.interrupt import at_once
from gpu_node.onboarding.trust.password import asked, given
with at_once():
    found = given(False) or asked("Password: ")
print("GIVEN" if found and found.reveal() == "typed" else "OTHER", found, flush=True)
"""


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put a stdin that is no terminal into place."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nmore\n"])
def test_from_stdin(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    """The first line without its end; it comes before the environment, which is emptied."""
    monkeypatch.setenv(VARIABLE, "other")
    give(monkeypatch, PASSWORD.encode() + end)
    found = given(True)
    assert found and found.reveal() == PASSWORD
    assert VARIABLE not in os.environ


@pytest.mark.parametrize("data", [b"", b"\nsecond\n", b"m\xfcll\n"])
def test_a_stdin_without_one(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """An error, and not the next place: the user named that place. Its bytes are not printed."""
    monkeypatch.setenv(VARIABLE, "other")
    give(monkeypatch, data)
    with pytest.raises(ContactError, match="--password-stdin: found no password") as caught:
        given(True)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    text = "".join(each for each in shown.format() if "test_password.py" not in each)
    assert "xfcll" not in text


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken out of it at once: no child process has it."""
    give(monkeypatch, b"")
    monkeypatch.setenv(VARIABLE, PASSWORD)
    found = given(False)
    assert found and found.reveal() == PASSWORD
    assert VARIABLE not in os.environ
    shown = subprocess.run(["env"], capture_output=True, check=True).stdout
    assert VARIABLE.encode() not in shown
    assert (given(False), asked("")) == (None, None)
    monkeypatch.setenv(VARIABLE, "")
    assert (given(False), asked("")) == (None, None)


def test_an_environment_that_is_not_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused at once, and never printed; where stdin has another one it is not looked at."""
    monkeypatch.setenv(VARIABLE, "hun\udcff")
    with pytest.raises(ContactError, match=f"{VARIABLE} is not UTF-8") as caught:
        given(False)
    assert_hidden(caught.value)
    monkeypatch.setenv(VARIABLE, "hun\udcff")
    give(monkeypatch, b"other\n")
    found = given(True)
    assert found and found.reveal() == "other"


def type_undecoded(prompt: str) -> str:
    """Answer as getpass does where the terminal's encoding is another one."""
    return b"hun\xff".decode()


@pytest.mark.parametrize("answer", [type_undecoded, lambda prompt: "hun\udcff"])
def test_a_typed_one_that_is_not_utf_8(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], str]
) -> None:
    """However the terminal's encoding is got wrong."""
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(getpass, "getpass", answer)
    with pytest.raises(ContactError, match="what was typed is not UTF-8") as caught:
        asked("")
    assert_hidden(caught.value)


def assert_hidden(error: ContactError) -> None:
    """Have nothing of the password in the error, its frames or what it came from."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    text = "".join(each for each in shown.format() if "test_password.py" not in each)
    assert "hun" not in text
    assert (error.__context__, error.__cause__) == (None, None)


def test_a_refused_password_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next prompt differs, so that the user sees what happened."""
    prompts: list[str] = []
    monkeypatch.setattr(password_module, "asked", prompts.append)
    ask = typed("root@192.0.2.12:22")
    for _ in range(3):
        ask()
    again = "That password is refused. Password of root@192.0.2.12:22: "
    assert prompts == ["Password of root@192.0.2.12:22: ", again, again]


def test_what_is_shown_of_the_process() -> None:
    """`ps e` reads the environment that a process began with; there it is blotted out."""
    script = (
        "from gpu_node.onboarding.trust.password import given\n"
        "found = given(False)\n"
        "print(found.reveal() == 'hunter2', b'hunter2' in open('/proc/self/environ', 'rb').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        env={**os.environ, VARIABLE: "hunter2", "PYTHONPATH": str(REPOSITORY / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("True False\n", "")


def test_a_secret_is_not_shown() -> None:
    """Neither as text, nor in a dump of variables, nor written down."""
    secret = Secret(PASSWORD)
    assert {str(secret), repr(secret), f"{secret}", f"{secret!r}"} == {"***"}
    assert repr({"password": secret}) == "{'password': ***}"
    assert not hasattr(secret, "__dict__")
    with pytest.raises(TypeError):
        pickle.dumps(secret)


class Terminal:
    """A process that asks at a terminal, and what appears there."""

    def __init__(self) -> None:
        self.pid, self.side = pty.fork()
        if not self.pid:
            # As on a terminal, whatever the tests were started to ignore.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.chdir(REPOSITORY)
            os.execve(
                sys.executable,
                [sys.executable, "-c", ASK],
                {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
            )
        self.seen = b""

    def until(self, text: bytes) -> None:
        """Read until something is seen."""
        while text not in self.seen:
            self.seen += os.read(self.side, 1000)

    def rest(self) -> bytes:
        """All that appears until the process ends."""
        try:
            while more := os.read(self.side, 1000):
                self.seen += more
        except OSError:  # the terminal of a process that is gone
            pass
        return self.seen

    def close(self) -> None:
        """End it."""
        os.close(self.side)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """One that is at the prompt."""
    with closing(Terminal()) as terminal:
        terminal.until(b"Password: ")
        yield terminal


def test_at_a_prompt(terminal: Terminal) -> None:
    """What is typed is taken and not seen."""
    os.write(terminal.side, b"typed\n")
    terminal.until(b"GIVEN ***")
    assert b"typed" not in terminal.rest()


def test_ctrl_d_at_the_prompt(terminal: Terminal) -> None:
    """No password; the caller says what to do."""
    os.write(terminal.side, b"\x04")
    terminal.until(b"OTHER None")


def test_ctrl_c_at_the_prompt(terminal: Terminal) -> None:
    """It ends, and the terminal shows again what is typed."""
    while termios.tcgetattr(terminal.side)[3] & termios.ECHO:
        time.sleep(0.02)
    os.write(terminal.side, b"\x03")
    terminal.rest()
    assert termios.tcgetattr(terminal.side)[3] & termios.ECHO
    assert b"KeyboardInterrupt" in terminal.seen
