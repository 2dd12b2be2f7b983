"""What a run left that was cut off: the next one tries a login, and confirms it or puts it back."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gevent
import pytest
from pyinfra.api import Host, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.host import HostData
from pyinfra.connectors.util import CommandOutput, OutputLine

from gpu_node.deploy import limits as limits_area
from gpu_node.deploy.engine import baseline as before
from gpu_node.deploy.files import confirm as confirmation
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.replace import replace
from gpu_node.facts.ask import patience
from gpu_node.facts.ask import waiting as limits
from gpu_node.facts.ask.patience import Patience
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.limits import confirmed
from gpu_node.facts.limits.unsettled import MOST, Waiting, listing, parse
from gpu_node.facts.probe.file_bytes import FileContent
from gpu_node.facts.probe.protocol import Unreadable
from tests.node_scripts import run, tree

OLD = FileContent(exists=True, text="old", problem="")


class Local:
    """A session: it runs commands here."""

    def run_shell_command(self, command: StringCommand, *_: Any, **__: Any) -> Any:
        """What the node answers."""
        argv = ["sh", "-c", command.get_raw_value()]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        lines = [OutputLine("stdout", line) for line in done.stdout.splitlines()]
        lines += [OutputLine("stderr", line) for line in done.stderr.splitlines()]
        return done.returncode == 0, CommandOutput(lines)


@pytest.fixture
def host() -> Host:
    """A node to which a session is open."""
    data = HostData(cast(Host, None), {"ssh_user": "root"})
    session = Local()
    made = SimpleNamespace(data=data, connector=session, print_prefix="[n] ", name="n", state=None)
    return cast(Host, made)


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The logins of a run, each by its user; empty the word `refused` in it, and none opens."""
    tried: list[str] = []

    @contextmanager
    def fresh(host: Host, user: str = "") -> Iterator[Local]:
        if "refused" in tried:
            raise ConnectError("Authentication error")
        tried.append(user)
        yield Local()

    monkeypatch.setattr(confirmation, "fresh", fresh)
    monkeypatch.setattr(confirmation, "trouble", lambda host, session, user, arguments: "")
    monkeypatch.setattr(sys, "argv", ["pyinfra", "-y"])
    return tried


@pytest.fixture
def folder(tmp_path: Path, backups: Path) -> Path:
    """A folder with a file that a run replaced before it was killed."""
    folder = tmp_path / "etc"
    folder.mkdir()
    left(folder / "conf")
    return folder


def left(file: Path, then: str = "") -> None:
    """Replace a file, and never confirm it."""
    file.write_text("old")
    assert run(replace(str(file), OLD, "new", confirm_seconds=900, then=then), "dash").code == 0


def waiting() -> tuple[Waiting, ...]:
    """What the node reports; a test's files stand for those of the system."""
    return parsed("dash")


def parsed(shell: str) -> tuple[Waiting, ...]:
    """What is read of the records, by a shell."""
    out = run(StringCommand(listing(replacement.PENDING)), shell).out
    return parse(out)


def test_it_is_reported(folder: Path, pending: Path, shell: str) -> None:
    """By each shell: whose file it is, which, and what was written."""
    (found,) = parsed(shell)
    assert (found.user, found.path) == ("", str(folder / "conf"))
    assert found.after == replacement.sum_of("new")
    assert parse(run(StringCommand(listing(f"{pending}/none")), shell).out) == ()


def test_a_login_that_opens(
    folder: Path, pending: Path, host: Host, logins: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The change is confirmed, and nothing waits any more."""
    left(folder / "other")
    with caplog.at_level(logging.INFO):
        assert confirmation.settle(host, waiting())
    assert logins == ["", ""]
    assert tree(folder) == {"conf": b"new", "other": b"new"}
    assert not pending.exists()
    assert (
        f"{folder}/conf: an earlier run was cut off: a new session confirmed its change"
        in caplog.text
    )
    assert not confirmation.settle(host, waiting())


def test_a_login_that_is_refused(
    folder: Path, pending: Path, host: Host, logins: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The file is put back over the session that is open."""
    logins.append("refused")
    assert confirmation.settle(host, waiting())
    assert tree(folder) == {"conf": b"old"}
    assert not pending.exists()
    assert "no new session with" in caplog.text and "the earlier file was restored" in caplog.text


def test_another_account_that_is_locked_out(
    folder: Path, host: Host, logins: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SSH user's own login is no proof of it."""
    host.data.override_datas["launcher_user"] = "alice"
    reported = {"alice": "cannot open a session of alice"}
    monkeypatch.setattr(
        confirmation, "trouble", lambda host, session, user, arguments: reported.get(user, "")
    )
    assert confirmation.settle(host, waiting())
    assert tree(folder) == {"conf": b"old"}


def test_what_was_changed_since(
    folder: Path, pending: Path, host: Host, logins: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A later change by another program stays, and a message reports it."""
    (folder / "conf").write_text("theirs")
    logins.append("refused")
    assert confirmation.settle(host, waiting())
    assert tree(folder) == {"conf": b"theirs"}
    assert "was changed by another program, and left as it is" in caplog.text
    assert not pending.exists()


@pytest.mark.parametrize("reads", [True, False])
def test_a_daemons_file(
    tmp_path: Path, pending: Path, backups: Path, host: Host, logins: list[str], reads: bool
) -> None:
    """It is read first, so that the login is one with it; what cannot be read is put back."""
    file = tmp_path / "etc" / "sshd_config"
    file.parent.mkdir()
    seen = tmp_path / "seen"
    left(file, f"cat {file} >>{seen}; " + ("true" if reads else f"grep -q old {file}"))
    assert confirmation.settle(host, waiting())
    assert (seen.read_text(), file.read_text()) == (("new", "new") if reads else ("newold", "old"))
    assert logins == ([""] if reads else [])
    assert not pending.exists()


def test_a_dry_run(
    folder: Path, host: Host, logins: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes nothing, and leaves the decision to the next one."""
    monkeypatch.setattr(sys, "argv", ["pyinfra", "--dry"])
    assert not confirmation.settle(host, waiting())
    assert len(waiting()) == 1 and logins == []


@pytest.mark.parametrize("settles", [True, False])
def test_it_is_the_first(monkeypatch: pytest.MonkeyPatch, settles: bool) -> None:
    """The node is judged as it is after that; a healthy one is asked once."""
    story: list[object] = []
    limits = SimpleNamespace(unsettled=("record",) if settles else ())
    found = SimpleNamespace(limits=limits)

    @contextmanager
    def fresh(host: Host) -> Iterator[str]:
        yield "new session"

    def probe(host: Host, connector: object = None) -> object:
        story.append(connector or "probe")
        return found

    def settle(host: Host, waiting: object) -> bool:
        story.append(waiting)
        return bool(waiting)

    for name, each in (("fresh", fresh), ("probe", probe)):
        monkeypatch.setattr(before, name, each)
    monkeypatch.setattr(limits_area, "settle", settle)
    monkeypatch.setattr(before, "tune", lambda connector: None)
    ask: Callable[[Any, Patience], object] = before._ask
    assert ask(SimpleNamespace(name="n", connector=None), Patience(1)) is found
    first = ["probe", limits.unsettled]
    assert story == ([*first, "new session"] if settles else first)


def test_no_new_session_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is left alone, with the reason."""

    @contextmanager
    def fresh(host: Host) -> Iterator[str]:
        raise ConnectError("refused")
        yield ""

    found = SimpleNamespace(limits=SimpleNamespace(unsettled=("record",)))
    monkeypatch.setattr(before, "fresh", fresh)
    monkeypatch.setattr(before, "probe", lambda host: found)
    monkeypatch.setattr(limits_area, "settle", lambda host, waiting: True)
    monkeypatch.setattr(before, "tune", lambda connector: None)
    asked = cast(Host, SimpleNamespace(name="n", connector=None))
    answer = before._ask(asked, Patience(1))
    assert isinstance(answer, ProbeError) and str(answer) == "no new session: refused"


def records(count: int) -> tuple[Waiting, ...]:
    """What a node says that waits there."""
    return tuple(
        Waiting(user=f"user{each}", path=f"/home/user{each}/.ssh/authorized_keys", after="a" * 64)
        for each in range(count)
    )


def answered(monkeypatch: pytest.MonkeyPatch, silent: str, second: bool = False) -> dict[str, str]:
    """Ask two nodes, of which one says that something waits; return what became of each, in words.

    It is silent when that is settled, or `second`, when it is asked again after that.
    """
    monkeypatch.setattr(sys, "argv", ["pyinfra", "-y"])
    monkeypatch.setattr(before, "tune", lambda connector: None)
    monkeypatch.setattr(confirmation, "ALL_SECONDS", 0.5)
    monkeypatch.setattr(limits, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(patience, "_LOOK_SECONDS", 0.02)

    @contextmanager
    def fresh(host: Host, user: str = "") -> Iterator[Any]:
        yield host.connector

    def command(*_: object, **__: object) -> Any:
        if not second:
            gevent.sleep(20)
        return True, CommandOutput([])

    def probe(host: Host, connector: object = None) -> object:
        if host.name == silent and connector:
            gevent.sleep(20)
        waits = records(3) if host.name == silent and not connector else ()
        return SimpleNamespace(limits=SimpleNamespace(unsettled=waits))

    for module in (before, confirmation):
        monkeypatch.setattr(module, "fresh", fresh)
    monkeypatch.setattr(confirmation, "trouble", lambda host, session, user, arguments: "")
    monkeypatch.setattr(before, "probe", probe)
    watching = Patience(2)

    def one(name: str) -> str:
        connector = SimpleNamespace(run_shell_command=command)
        made = SimpleNamespace(
            name=name, connector=connector, print_prefix=f"[{name}] ", state=None
        )
        made.data = HostData(cast(Host, None), {})
        answer = before._ask(cast(Host, made), watching)
        return str(answer) if isinstance(answer, ProbeError) else "answered"

    jobs = {name: gevent.spawn(one, name) for name in ("a", "b")}
    gevent.joinall(list(jobs.values()), timeout=15)
    return {name: job.value if job.ready() else "still asked" for name, job in jobs.items()}


def test_a_node_that_is_silent_while_it_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one time limit for all that waits, however much that is, and is left alone then."""
    began = time.monotonic()
    found = answered(monkeypatch, "b")
    assert time.monotonic() - began < 5
    assert found["a"] == "answered"
    assert "were not settled within 0.5 s (/home/user0/.ssh/authorized_keys, " in found["b"]
    assert "run again with --limit b" in found["b"]


def test_a_node_that_is_silent_after_it_was_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for as it was for its first answer."""
    found = answered(monkeypatch, "b", second=True)
    assert found["a"] == "answered"
    assert "it sent nothing for 0.5 s" in found["b"]


@pytest.mark.parametrize("path", [*confirmed.FILES, "/home/alice/.ssh/authorized_keys"])
def test_what_is_confirmed_is_known(path: str) -> None:
    """A deploy may write each of these files so, and the next run knows the record of it."""
    assert replace(path, OLD, "new", confirm_seconds=60)
    (found,) = parse(f"{'a' * 64} {'b' * 64} 644 0:0 root {path}\n")
    assert found.path == path


@pytest.mark.parametrize(
    "path", ["/etc/ssh/other_config", "/home/alice/.bashrc", "/home/../etc/.ssh/authorized_keys"]
)
def test_a_file_that_the_next_run_does_not_know(path: str) -> None:
    """Nothing has it confirmed: the next run would not settle it, and advise to remove its undo."""
    assert replace(path, OLD, "new")
    with pytest.raises(ValueError, match=f"{path} is not in facts/limits/confirmed.py"):
        replace(path, OLD, "new", confirm_seconds=60)


def test_records_that_no_run_of_ours_left() -> None:
    """None of them is worked on: too many, another file, an account that is none."""

    def line(user: str, path: str) -> str:
        return f"absent {'a' * 64} - - {user} {path}\n"

    keys = "/home/alice/.ssh/authorized_keys"
    assert len(parse("".join(line(f"u{each}", keys) for each in range(MOST)))) == MOST
    with pytest.raises(Unreadable, match=f"3000 records .* more than {MOST}: wait "):
        parse("".join(line("root", f"/home/u{each}/.ssh/authorized_keys") for each in range(3000)))
    for user, path in (
        ("root", "/etc/passwd"),
        ("alice", "/etc/ssh/sshd_config"),
        ("-c id", keys),
        ("alice", "/home/../etc/.ssh/authorized_keys"),
    ):
        with pytest.raises(Unreadable):
            parse(line(user, path))
    # Of runs that were cut off at the same time.
    assert len(parse(line("alice", keys) * 2)) == 1
