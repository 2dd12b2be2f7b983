"""The workspace is copied really: from one folder to another, with a stand-in for ssh."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host
from typing_extensions import override

from gpu_node.deploy.engine.run import Run
from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.workspace import progress
from gpu_node.deploy.workspace.progress import DISPLAY
from gpu_node.deploy.workspace.rsync import Removal, command, next_step, place, ssh_to
from gpu_node.deploy.workspace.rsync_run import Outcome, another_user, as_trainer, follow, locally
from gpu_node.facts.probe import request as named
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import Copied
from gpu_node.facts.workspace.state import PARTIAL
from gpu_node.inventories.connection.capped import TooMuch
from gpu_node.inventories.fields import paths as places
from tests.deploy.copies import PEER, RUN, listed, sent
from tests.node_scripts import run, run_apart


def test_a_copy(folders: tuple[Path, Path], wire: Path) -> None:
    """What is excluded is not sent, what is the node's own stays, and the lists are then alike."""
    source, target = folders
    assert sent(source, target)
    assert (target / "lib" / "two words.py").read_text() == "new"
    assert (target / "own.log").read_text() == "mine"
    assert sorted(path.name for path in (target / "cache").iterdir()) == ["kept"]
    assert listed(source).entries.items() <= listed(target).entries.items()
    words = wire.read_text()
    assert "StrictHostKeyChecking=yes" in words and "BatchMode=yes" in words
    assert "-i /k -l train -p 2222 -l train 192.0.2.11" in words


def test_what_the_source_has_not_goes_when_asked(folders: tuple[Path, Path], wire: Path) -> None:
    """And what is excluded stays all the same."""
    source, target = folders
    assert sent(source, target, Removal(most=1))
    assert not (target / "own.log").exists()
    assert (target / "cache" / "kept").exists()
    assert listed(source) == listed(target)


def test_a_copy_that_fails(folders: tuple[Path, Path], wire: Path, caplog: Any) -> None:
    """The error has rsync's output and the state: nothing was sent, and no run sends the rest."""
    (wire.parent / "bin" / "ssh").write_text("#!/bin/sh\necho Host key is another >&2; exit 255\n")
    assert not sent(*folders)
    assert "Host key is another" in caplog.text and "the next run sends" not in caplog.text
    assert "nothing was sent: check that this command works" in caplog.text
    assert "-l train -p 2222 192.0.2.11 rsync --version" in caplog.text


def test_an_error_behind_the_progress() -> None:
    """rsync ends no line before it prints an error: both are kept."""
    shown = "             32 100%   31.25kB/s    0:00:00 (xfr#1, to-chk=0/2)"
    lines = [
        f"  1,024  50%    0.00kB/s    0:00:01\r{shown}{DENIED}",
        "",
        "      9   1%  1.00MB/s ??:??:??",
    ]
    done: list[int] = []
    ended = Outcome()
    split = [each for line in lines for each in line.split("\r")]
    reported: list[str | int] = [*split, 23]
    follow(reported, done.append, ended)
    assert (done, ended) == ([1024, 32, 9], Outcome(23, [DENIED], True))


CUT = "rsync: connection unexpectedly closed (4183 bytes received so far) [sender]"
REFUSED = "rsync: connection unexpectedly closed (0 bytes received so far) [sender]"
DENIED = 'rsync: [receiver] mkstemp "/data/ws/.a.X" failed: Permission denied (13)'
FULL = 'rsync: [receiver] write failed on "/data/ws/a": No space left on device (28)'
NOTHING = "nothing was sent: check that this command works as train of a100-01: ssh"


@pytest.mark.parametrize(
    ("code", "output", "has_sent", "expected"),
    [
        (255, [CUT], False, "the next run sends the rest"),
        (12, [CUT], True, "the next run sends the rest"),
        (12, [REFUSED], False, NOTHING),
        (255, ["Permission denied (publickey).", REFUSED], False, NOTHING),
        (20, [], True, "the next run sends the rest"),
        (30, [], True, "the next run sends the rest"),
        (-1, ["a100-01 is not connected"], False, NOTHING),
        (23, [DENIED], True, "train of a100-01 cannot read it there, or zhang cannot write"),
        (23, ["gpu-node as li", DENIED], True, "or li cannot write it here; give it to li (chown"),
        (11, [FULL], True, "what was sent stays; correct what the error reports, and run again"),
    ],
)
def test_what_comes_after_a_copy_that_failed(
    code: int, output: list[str], has_sent: bool, expected: str
) -> None:
    """The next run finishes only what was interrupted, by rsync's own codes."""
    ended = Outcome(code, output, has_sent)
    reported = next_step(ended, "train of a100-01", "zhang", "ssh zhang@v")
    assert expected in reported
    assert ("the next run" in reported) == ("the next run" in expected)


def test_a_nodes_copy_is_the_training_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose keys the mesh has; where that is the SSH user, nothing stands before rsync."""
    for name, text in (("id", '[ "$1" = -u ] && echo 0 || echo root'), ("su", 'echo "$@"; pwd')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    words = as_trainer("train", ["rsync", "/two words/", "train@192.0.2.11:/d/"])
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True)
    assert done.stdout == (
        "-s /bin/sh train -c LC_ALL=C rsync '/two words/' train@192.0.2.11:/d/\n/\n"
    )
    assert as_trainer("", ["rsync", "/a b/"]) == "LC_ALL=C rsync '/a b/'"


@pytest.mark.parametrize(
    ("data", "user"),
    [
        ({"ssh_user": "root"}, ""),
        ({"ssh_user": "root", "launcher_user": "root"}, ""),
        ({"ssh_user": "root", "launcher_user": "train"}, "train"),
        ({"launcher_user": "train"}, "train"),
        ({}, ""),
    ],
)
def test_who_trains(data: dict[str, str], user: str) -> None:
    """Only where the launcher's user is another one than who logs in."""
    given = SimpleNamespace(data=SimpleNamespace(dict=lambda: data))
    assert another_user(cast(Host, given)) == user


@pytest.mark.parametrize(
    ("version", "shows"), [("3.0.9", False), ("3.1.2", True), ("4.0", True), ("", False)]
)
def test_which_rsync_shows_its_progress(version: str, shows: bool) -> None:
    """The one of CentOS 7 is the first."""
    assert ("--info=progress2" in command([], version)) == shows


def test_what_is_left_of_a_copy_is_no_file_of_the_workspace() -> None:
    """Half a file waits where neither a list nor --delete sees it."""
    words = command(["*.pyc"], "3.1.2", Removal(most=1))
    assert f"--partial-dir={PARTIAL}" in words and f"--exclude={PARTIAL}" in words
    assert "--delete-delay" in words and "--exclude=*.pyc" in words
    assert "--owner" not in words and "--chmod=Fug-s" in words
    assert "--checksum" not in words and "--checksum" in command([], "", Removal(checksum=True))


def test_an_ipv6_address_stands_in_brackets() -> None:
    """Else its first colon would end the host's name."""
    assert place(Peer(name="n", address="fd00::2"), "train", "/d") == "train@[fd00::2]:/d/"
    assert place(PEER, None, "/d") == "192.0.2.11:/d/"


def test_the_controllers_own_ssh() -> None:
    """As pyinfra reaches the host: configuration, known hosts, key and port."""
    data = {"ssh_config_file": "/dev/null", "ssh_known_hosts_file": "/k h", "ssh_key": "/key"}
    words = ssh_to(data, "node")
    assert words[words.index("-F") + 1] == "/dev/null"
    assert 'UserKnownHostsFile="/k h"' in words and "-p" not in words


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes and rate for each node, and nothing is left of it; without a terminal none."""

    class Terminal(io.StringIO):
        @override
        def isatty(self) -> bool:
            return True

    screen, run = Terminal(), Run()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with (
        progress.bar(run, "a100-01", 2_000_000) as first,
        progress.bar(run, "v100-01", 10) as second,
    ):
        first(1_000_000)
        second(10)
        display = run.of(DISPLAY).shown
        assert display is not None
        display.refresh()
        assert len(display.tasks) == 2
    assert run.of(DISPLAY).shown is None
    assert "[a100-01]" in screen.getvalue() and "1.0/2.0 MB" in screen.getvalue()
    monkeypatch.setattr("sys.stderr", quiet := io.StringIO())
    with progress.bar(run, "a100-01", 10) as first:
        first(5)
    assert quiet.getvalue() == ""


@pytest.mark.parametrize("made", [False, True], ids=["missing", "there"])
def test_a_directory(tmp_path: Path, shell: str, made: bool) -> None:
    """It alone gets its mode; what is in it stays, and setgid is what the mode says."""
    folder = tmp_path / "a" / "models"
    if made:
        folder.mkdir(parents=True)
        folder.chmod(0o2766)
        (folder / "file").touch(mode=0o600)
    done = run(script("directory", path=str(folder), mode="775", owner="", group=""), shell)
    assert (done.code, done.err) == (0, "")
    assert folder.stat().st_mode & 0o7777 == 0o775
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600] * made


def test_a_directory_of_an_unknown_user(tmp_path: Path, shell: str) -> None:
    """The error names it, and no mode is set."""
    done = run(script("directory", path=str(tmp_path), mode="777", owner="nil", group=""), shell)
    assert done.code == 1 and "nil" in done.err
    assert tmp_path.stat().st_mode & 0o7777 != 0o777


def test_room_for_the_workspace(tmp_path: Path, shell: str) -> None:
    """With its parents; what is there already is left as it is."""
    for _ in range(2):
        path, backup = f"{tmp_path}/data/ws", f"{tmp_path}/data/.ws.gpu-node-backup/{RUN}"
        asked = script("workspace", path=path, owner="", allow="yes", backup=backup)
        assert run(asked, shell).code == 0
    assert Path(path).is_dir() and Path(backup).is_dir()
    assert Path(backup).parent.stat().st_mode & 0o777 == 0o700


def test_room_for_the_training_users_workspace(shell: str) -> None:
    """It is given to who copies; the folders on the way stay the SSH user's, and open."""
    backup = f"/mnt/data/.ws.gpu-node-backup/{RUN}"
    path = "/mnt/data/ws"
    asked = script("workspace", path=path, owner="_apt", allow="yes", backup=backup)
    after = [
        '[ "$(stat -c %U:%a /mnt/data)" = root:755 ]',
        '[ "$(stat -c %U /mnt/data/ws)" = _apt ]',
        f'[ "$(stat -c %U:%a {backup} {backup}/..)" = "$(printf "_apt:700\\n_apt:700")" ]',
    ]
    done = run_apart(asked, shell, "mount -t tmpfs -o mode=755 tmpfs /mnt; umask 077", after)
    assert (done.code, done.err) == (0, "")


def test_where_a_node_may_have_it() -> None:
    """One place, unless the source has it elsewhere."""
    assert Copied("/data/ws", "/data/ws", "n1").paths == ("/data/ws",)
    assert Copied("/data/ws", "/src/ws", "n1").paths == ("/data/ws", "/src/ws")
    assert named.CONTROLLER == places.CONTROLLER  # neither room may import the other


FOREVER = ["sh", "-c", "while :; do echo; sleep 0.1; done"]


@pytest.mark.parametrize(
    ("argv", "seconds", "says"),
    [
        (["sh", "-c", "head -c 300000 /dev/zero; sleep 60"], 60, "64 KiB without an end of line"),
        (FOREVER, 0.3, "did not end within 0 s"),
    ],
)
def test_an_rsync_that_prints_without_end(argv: list[str], seconds: float, says: str) -> None:
    """The other end is another machine's: neither its bytes nor its time are without limit."""
    with pytest.raises((OSError, TooMuch), match=says):
        list(locally(argv, seconds))


def test_very_many_messages() -> None:
    """The first ones are kept, and the last; no number is too long for Python."""
    ended = Outcome()
    follow([*(f"rsync: {n}" + "x" * 9999 for n in range(9999)), 23], lambda _: None, ended)
    assert (len(ended.messages), ended.messages[-1][:12]) == (201, "rsync: 9998x")
    follow(
        [f"{'9' * 5000}  1% 1.00MB/s 0:00:01", "\N{ARABIC-INDIC DIGIT TWO} 1% 1/s 0"], print, ended
    )
