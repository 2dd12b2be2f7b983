"""A restore, with the scripts really run: from the records of runs to the files as they were."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, StringCommand
from pyinfra.connectors.util import CommandOutput, OutputLine

from gpu_node.deploy.console import UserConsole
from gpu_node.deploy.engine.scripts import as_run, script, text
from gpu_node.deploy.files import confirm as confirmation
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.confirm import Trial
from gpu_node.deploy.files.replace import confirm, replace, reread
from gpu_node.deploy.host import operations as settings
from gpu_node.deploy.restore import console
from gpu_node.deploy.restore import node as on_node
from gpu_node.deploy.restore.node import NodeFiles, Refused, Target
from gpu_node.deploy.restore.records import RunRecord, Unusable, parse
from gpu_node.deploy.restore.restoring import Asked, NoSuchRun, NotRestored, _Restoring, run_shown
from gpu_node.facts.ask.execute import Rights
from gpu_node.facts.probe.file_bytes import FileBytes
from gpu_node.facts.probe.training_user import AS_USER
from tests.deploy.accounts import AS_ROOT, OTHER, USER, USER_ID
from tests.deploy.accounts import place as place  # the fixture
from tests.node_scripts import run, tree
from tests.shells import SHELLS

pytestmark = AS_ROOT
USER_GROUP = pwd.getpwuid(USER_ID).pw_gid
MIDNIGHT = datetime(2026, 11, 29, tzinfo=timezone.utc)
FIRST, SECOND, THIRD, FOURTH = (f"2027011{day}T080000Z-abcdef" for day in (5, 6, 7, 8))


class Connector:
    """Runs each command here, in a shell of this test."""

    def __init__(self, shell: str) -> None:
        self.shell = shell

    def run_shell_command(
        self, command: StringCommand, *_: object, _stdin: Sequence[str] = (), **__: object
    ) -> tuple[bool, CommandOutput]:
        """As pyinfra's connectors do."""
        done = run(StringCommand(*command.bits, _stdin=list(_stdin)), self.shell)
        lines = [OutputLine("stdout", line) for line in done.out.splitlines()]
        lines += [OutputLine("stderr", line) for line in done.err.splitlines()]
        return done.code == 0, CommandOutput(lines)


class Node:
    """A node of files below a folder, its runs, and what a restore says about it."""

    def __init__(self, place: Path, shell: str, patch: pytest.MonkeyPatch) -> None:
        self.place, self.patch, self.shell = place, patch, shell
        self.top = place / "backups"
        self.etc, self.home = place / "etc" / "docker", place / "home"
        self.conf, self.bashrc = self.etc / "daemon.json", self.home / ".bashrc"
        self.keys = place / ".ssh" / "authorized_keys"
        self.etc.mkdir(parents=True)
        self.home.mkdir()
        shutil.chown(self.home, USER)
        self.begin(FIRST)
        data = SimpleNamespace(dict=dict)
        host = SimpleNamespace(connector=Connector(shell), data=data, name="n", print_prefix="")
        self.files = NodeFiles(cast(Host, host), {})

    def begin(self, name: str) -> None:
        """Have all that follows belong to another run."""
        self.patch.setattr(replacement, "backups", lambda: str(self.top / name))
        self.patch.setattr(replacement, "run", lambda: name)

    def write(self, path: Path, new: str, user: str = "", **more: Any) -> None:
        """Write a file as a deploy does."""
        facts = FileBytes()
        old = facts.process(run(facts.command(str(path), user), self.shell).out.splitlines())
        done = run(replace(str(path), old, new, user=user, **more), self.shell)
        assert (done.code, done.err) == (0, "")

    def target(self, path: Path, user: str = "root") -> Target:
        """How a file is put back."""
        (found,) = self.files.look(self.files.runs()[:1], {str(path): user})
        return found

    def leave(self) -> Path:
        """Leave restore.sh in the folder of the run, as a deploy does."""
        done = run(next(console.leave._inner()), self.shell)
        assert (done.code, done.err) == (0, "")
        return Path(replacement.backups()) / "restore.sh"

    def at_console(self, restore_sh: Path) -> tuple[int, str]:
        """Restore by that script; how it ends, and what it says."""
        command = [*SHELLS[self.shell], str(restore_sh)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == "" or done.returncode, done.stderr
        return done.returncode, done.stdout + done.stderr

    def restore(self, yes: bool = True, **asked: Any) -> int:
        """Restore as the command does."""
        given = Asked("site.yml", "n", **asked)
        return _Restoring(given, UserConsole(yes), self.files, [""], lambda *_: None).done()


def kinds(*paths: Path) -> list[tuple[str, int, int, int] | None]:
    """What a restore gives back of each file: content, mode and owner."""
    found: list[tuple[str, int, int, int] | None] = []
    for path in paths:
        status = path.stat() if path.exists() else None
        kept = status and (path.read_text(), status.st_mode, status.st_uid, status.st_gid)
        found.append(kept)
    return found


HINT = "docker keeps the defaults that it has read; systemctl reload docker"


def test_at_a_console(node: Node) -> None:
    """All of a run, in two steps; and that back."""
    node.write(node.conf, '{"a": 1}\n')
    node.write(node.bashrc, "export A='%s' \\\n", USER)
    node.conf.chmod(0o640)
    made = node.etc / "made.json"
    before = kinds(node.conf, node.bashrc, made)
    node.begin(SECOND)
    node.write(node.conf, '{"a": 2}\n')
    node.write(node.conf, '{"a": 3}\n')
    node.write(made, "{}\n")
    node.write(node.bashrc, "export A=2\n", USER)
    after = kinds(node.conf, node.bashrc, made)
    code, output = node.at_console(node.leave())
    assert code == 0, output
    assert kinds(node.conf, node.bashrc, made) == before
    assert f"{node.conf}: {HINT}" in output
    (back,) = (each for each in node.top.iterdir() if each.name not in (FIRST, SECOND))
    assert node.at_console(back / "restore.sh")[0] == 0
    assert kinds(node.conf, node.bashrc, made) == after


@pytest.mark.parametrize("is_used", [True, False])
def test_a_run_that_changed_nothing_leaves_nothing(node: Node, is_used: bool) -> None:
    """What it left before its first change is removed, with folders that are empty."""
    if is_used:
        node.write(node.conf, "{}\n")
    restore_sh = node.leave()
    done = run(next(console.remove_unused._inner()), node.shell)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert restore_sh.exists() == node.top.exists() == is_used


def test_at_a_console_what_has_changed_since_stays(node: Node) -> None:
    """So does a file in a home that is not there; the others are put back."""
    node.write(node.conf, "{}\n")
    node.write(node.bashrc, "ours\n", USER)
    node.write(node.keys, "key\n")
    restore_sh = node.leave()
    node.conf.write_text("theirs\n")
    node.home.rename(node.place / "away")
    code, output = node.at_console(restore_sh)
    assert code == 1
    assert f"{node.conf}: stays as it is: another program changed it after run {FIRST}" in output
    assert f"{node.bashrc}: stays as it is: {USER} cannot read it" in output
    assert node.conf.read_text() == "theirs\n" and not node.keys.exists()


@pytest.fixture
def node(place: Path, shell: str, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node that nothing uses; each change that must be confirmed is, by a session here."""
    monkeypatch.setattr(NodeFiles, "require_idle", lambda self: None)

    def kept(host: Host, trial: Trial, rights: Rights) -> str:
        done = run(confirm(trial.path, trial.after, trial.user), shell)
        return done.err if done.code else ""

    monkeypatch.setattr(confirmation, "not_kept", kept)
    return Node(place, shell, monkeypatch)


def test_all_of_a_run(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """Content, mode and owner are as before; what the run made is removed, and nothing is left."""
    node.conf.write_text("{}\n")
    node.conf.chmod(0o640)
    shutil.chown(node.conf, "root", OTHER)
    node.bashrc.write_text("mine\n")
    shutil.chown(node.bashrc, USER, USER_GROUP)
    files = (node.conf, node.bashrc, node.keys)
    before = kinds(*files)
    node.write(node.conf, '{"a": 1}\n')
    node.write(node.bashrc, "ours\nmine\n", user=USER)
    node.write(node.keys, "key\n", mode="600")
    after = kinds(*files)
    assert None not in after and before[2] is None
    node.begin(SECOND)
    assert node.restore() == 0
    assert kinds(*files) == before
    out, err = capsys.readouterr()
    assert f"{node.bashrc}: gets its earlier content\n  -ours\n" in out
    assert f"{node.keys}: is removed" in out and "systemctl reload docker" in out
    assert f"3 files put back as run {SECOND}" in err
    assert f"; to take it back: gpu-node restore site.yml n --run {SECOND}\n" in err
    assert "a deploy repairs again what the inventory still asks for" in err
    left = {path for path in tree(node.place) if not path.startswith("backups/")}
    assert left == {"etc/docker/daemon.json", "home/.bashrc"}
    # The restore is the last run now.
    node.begin(THIRD)
    assert node.restore() == 0
    assert kinds(*files) == after
    assert node.restore(run=FIRST) == 0
    assert kinds(*files) == before


def test_a_file_that_is_as_before(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """The list of runs counts it, as it was written; a restore names it."""
    node.conf.write_text("1\n")
    node.write(node.conf, "2\n")
    node.conf.write_text("1\n")
    assert node.restore(dry=True) == 0
    assert f"{node.conf}: is as it was before the run\n" in capsys.readouterr().err


def test_two_runs_in_reverse(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one alone by default; with --run all since, and --list names them."""
    assert node.restore(listed=True) == 0 and capsys.readouterr().out == ""
    node.conf.write_text("1\n")
    node.write(node.conf, "2\n")
    node.begin(SECOND)
    node.write(node.conf, "3\n")
    node.begin(THIRD)
    assert node.restore(dry=True) == 0 and node.conf.read_text() == "3\n"
    capsys.readouterr()
    assert node.restore(listed=True) == 0 and node.conf.read_text() == "3\n"
    listed = [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [f"{SECOND} (1 file", f"{FIRST} (1 file"]
    assert node.restore(run=FIRST) == 0
    assert node.conf.read_text() == "1\n"


def test_a_file_that_has_changed_since(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, and nothing is written; unless it is to be left as it is."""
    node.conf.write_text("{}\n")
    node.write(node.conf, '{"a": 1}\n')
    node.write(node.keys, "key\n", mode="600")
    node.conf.write_text("another program's\n")
    before = kinds(node.conf, node.keys)
    with pytest.raises(NotRestored, match=r"1 file changed since(.|\n)*daemon.json: another pro"):
        node.restore()
    assert kinds(node.conf, node.keys) == before
    assert node.restore(skip_changed=True) == 0
    assert kinds(node.conf, node.keys) == [before[0], None]
    assert f"left as it is: {node.conf}: another program changed it" in capsys.readouterr().err


def test_what_is_shown_of_a_file(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that change, without their secrets, some of many, and bytes that are not UTF-8."""
    lines = [b"export https_proxy=http://me:planted@proxy", b"gr\xc3\xb6\xdf", b"x" * 5000]
    node.conf.write_bytes(b"token=SECRET\n" + b"\n".join([*lines, *[b"more"] * 100]))
    node.write(node.conf, "token=SECRET\n")
    assert node.restore(dry=True) == 0
    shown = capsys.readouterr().out
    for each in (
        "http://...@proxy",
        "  +gr\u00f6\\xdf\n",
        "x... (",
        "(43 more lines)",
    ):
        assert each in shown, each
    assert "planted" not in shown and "SECRET" not in shown


def test_no_run(node: Node) -> None:
    """None at all, and none of that name: then the runs of the node are listed."""
    with pytest.raises(NotRestored, match="no record of a run"):
        node.restore()
    node.write(node.keys, "key\n")
    with pytest.raises(NoSuchRun, match=rf"no such run on n\); allowed: {FIRST} \(1 file, "):
        node.restore(run=SECOND)


def test_a_job_that_runs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written, also with -y; a dry run shows all the same."""

    def busy(_: NodeFiles) -> None:
        raise Refused("in use by pid 1")

    monkeypatch.setattr(NodeFiles, "require_idle", busy)
    node.write(node.keys, "key\n")
    with pytest.raises(Refused, match="in use by pid 1"):
        node.restore()
    assert node.keys.read_text() == "key\n" and node.restore(dry=True) == 0


def test_a_restore_that_locks_out(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """No new session opens with it: it is taken back as a change of a deploy is."""
    monkeypatch.setattr(confirmation, "not_kept", lambda *_, **__: "no new session")
    node.keys.parent.mkdir()
    node.keys.write_text("old\n")
    node.keys.chmod(0o600)
    node.write(node.keys, "new\n")
    before = kinds(node.keys)
    node.begin(SECOND)
    assert node.restore() == 1
    assert kinds(node.keys) == before


def test_a_made_file_is_made_again_if_its_removal_locks_out(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the mode that it had."""
    monkeypatch.setattr(confirmation, "not_kept", lambda *_, **__: "no new session")
    node.write(node.keys, "new\n", mode="600")
    before = kinds(node.keys)
    node.begin(SECOND)
    assert node.restore() == 1
    assert kinds(node.keys) == before


SYSTEMCTL = """#!/bin/sh
case $* in
  (*UnitFileState*) cat "$HERE/file" ;;
  (*ActiveState*) cat "$HERE/active" ;;
  (*" enable "*) echo UnitFileState=enabled >"$HERE/file" ;;
  (*" disable "*) echo UnitFileState=disabled >"$HERE/file" ;;
  (*" start "*) echo ActiveState=active >"$HERE/active" ;;
  (*" stop "*) echo ActiveState=inactive >"$HERE/active" ;;
esac
"""


@pytest.mark.parametrize("opens", [True, False])
def test_what_follows_a_file(
    node: Node,
    programs: Path,
    opens: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A service is disabled and stopped again, unless no new session opens then."""
    monkeypatch.setattr(settings, "_KINDS", {str(node.conf): "service"})
    monkeypatch.setattr(settings, "BEFORE", f"{node.place}/before-")
    monkeypatch.setattr(on_node, "is_confirmed", lambda _: True)
    programs.mkdir()
    (programs / "systemctl").write_text(SYSTEMCTL.replace("$HERE", str(programs)))
    (programs / "systemctl").chmod(0o755)
    sh(f"cd {programs}; echo UnitFileState=disabled >file; echo ActiveState=inactive >active")
    text, then = "nvidia-persistenced = enabled active\n", settings.applied(str(node.conf))
    node.write(node.conf, text, confirm_seconds=60, then=then)
    for command in (reread(str(node.conf)), confirm(str(node.conf))):
        assert run(command, node.shell).code == 0

    def state() -> str:
        return " ".join((programs / name).read_text().strip() for name in ("file", "active"))

    ours, before = (
        "UnitFileState=enabled ActiveState=active",
        "UnitFileState=disabled ActiveState=inactive",
    )
    assert state() == ours
    node.begin(SECOND)
    if not opens:
        monkeypatch.setattr(confirmation, "not_kept", lambda *_, **__: "no new session")
    assert node.restore() == (0 if opens else 1), capsys.readouterr().err
    assert state() == (before if opens else ours)
    assert node.conf.exists() is not opens


# What a user puts in the place of that user's own file after the run, and what it leads to.
PLANTED = {
    "a link to root's file": lambda node: node.bashrc.symlink_to(node.place / "secret"),
    "a pipe": lambda node: os.mkfifo(node.bashrc),
    "a folder": lambda node: node.bashrc.mkdir(),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_a_user_plants(node: Node, plant: Callable[[Node], None]) -> None:
    """Root reads and writes nothing through it."""
    secret = node.place / "secret"
    secret.write_text("root's\n")
    secret.chmod(0o600)
    node.write(node.bashrc, "ours\n", user=USER)
    node.bashrc.unlink()
    restore_sh = node.leave()
    plant(node)
    with pytest.raises(Refused):
        node.restore()
    assert node.at_console(restore_sh)[0] == 1
    assert secret.read_text() == "root's\n"


def test_a_user_swaps_the_file_after_it_was_read(node: Node) -> None:
    """What is written is written as that user, who cannot open root's file."""
    secret = node.place / "secret"
    secret.write_text("ours\n")
    secret.chmod(0o644)
    node.write(node.bashrc, "ours\n", user=USER)
    found = node.target(node.bashrc, USER)
    node.bashrc.unlink()
    node.bashrc.symlink_to(secret)
    problem, _ = node.files.put_back(found)
    assert problem
    assert secret.read_text() == "ours\n" and secret.stat().st_uid == 0


def sh(script: str) -> None:
    """Run a script as root."""
    subprocess.run(["sh", "-ec", script], check=True)


# How the records of a run are no longer as root has written them, and why they are refused.
TAMPERED = {
    "the manifest is a link": ("mv manifest m; ln -s m manifest", "manifest is a link"),
    "a user's manifest": (f"chown {USER} manifest", "other than root may write in"),
    "others may write it": ("chmod 666 manifest", "other than root may write in"),
    "a group may write it": ("chmod 664 manifest", "other than root may write in"),
    "the folder is a user's": (f"chown {USER} .", "belongs to uid"),
    "others may write in the folder": ("chmod 777 .", "other than root may write in"),
    "the folder of all runs is open": ("chmod 777 ..", "other than root may write in"),
    "too large": ("head -c 300000 /dev/zero | tr '\\0' x >>manifest", "has more than"),
    "the run is a link": ("cd ..; mv $RUN 1; ln -s 1 $RUN", "is a link"),
}


@pytest.mark.parametrize(("change", "why"), TAMPERED.values(), ids=TAMPERED)
def test_a_record_that_another_could_have_written(node: Node, change: str, why: str) -> None:
    node.write(node.keys, "key\n")
    restore_sh = node.leave()
    sh(f"cd {node.top / FIRST} && RUN={FIRST} && {change}")
    with pytest.raises(Unusable) as error:
        node.restore()
    # A long record of root's costs a console nothing, and the shell enters the folder itself.
    assert why in ("has more than", "is a link") or node.at_console(restore_sh)[0] == 1
    assert node.keys.exists() and why in str(error.value)


def test_records_of_many_lines(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more lines of a record are read than are used."""
    for name in (SECOND, THIRD):
        node.begin(name)
        node.write(node.keys, f"{name}\n")
        for record in ("manifest", "also"):
            sh(f"head -c 200000 /dev/zero | tr '\\0' '\\n' >>{node.top / name / record}")
        os.utime(node.top / name / "manifest", (int(name[:8]),) * 2)
    sent: list[int] = []

    def parsed(lines: Sequence[str]) -> tuple[RunRecord, ...]:
        sent.append(len(lines))
        return parse(lines)

    monkeypatch.setattr(on_node, "parse", parsed)
    third, second = node.files.runs()
    assert sent[0] < 6 * 700
    assert "more than 600 lines" in third.problem and "more than 600 lines" in second.problem


# Lines that no run writes, each with what it costs.
LINES = {
    "another file": ("absent absent - - root /etc/shadow", "/etc/shadow: "),
    "a mode that is none": ("$A $A 99 0:0 root /etc/fstab", "/etc/fstab: "),
    "no file": ("absent", ""),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("line", "costs"), LINES.values(), ids=LINES)
def test_a_bad_line_costs_its_file(
    node: Node, capsys: pytest.CaptureFixture[str], line: str, costs: str
) -> None:
    """It is named, and left as it is; the other files of the run are put back."""
    node.write(node.keys, "key\n")
    sh(f"echo '{line.replace('$A', 'a' * 64)}' >>{node.top / FIRST}/manifest")
    node.begin(SECOND)
    assert node.restore(dry=True) == 0 and node.keys.exists()
    assert node.restore() == 1
    assert not node.keys.exists()
    assert f"left as it is: {costs}run {FIRST}: " in capsys.readouterr().err


@pytest.mark.parametrize("mode", [0o1644, 0o4755, 0o7777])
def test_each_mode_of_a_users_file(node: Node, mode: int) -> None:
    """The user's chmod before a run takes no file from a restore."""
    node.bashrc.write_text("mine\n")
    shutil.chown(node.bashrc, USER, USER_GROUP)
    node.bashrc.chmod(mode)
    node.write(node.keys, "key\n")
    node.write(node.bashrc, "ours\nmine\n", user=USER)
    node.begin(SECOND)
    assert node.restore() == 0
    assert node.bashrc.read_text() == "mine\n" and not node.keys.exists()


HOMES = ("two words", "back\\slash\\040", "Größe", "张", "$(reboot)'\"*", "-e1e id")
# No text that is shown, or sent, may have these: such a file is left as it is.
ODD_HOMES = ("a\tb", "a\nb", "a\n\n", "\x1b[2J", "\udcff")


@pytest.mark.parametrize("home", [*HOMES, *ODD_HOMES], ids=ascii)
def test_each_name_of_a_home(node: Node, home: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is written there is put back, or costs that file alone."""
    at = node.place / home
    at.mkdir()
    keys = at / ".ssh" / "authorized_keys"
    node.write(keys, "key\n", mode="600")
    node.write(node.keys, "key\n")
    node.begin(SECOND)
    is_odd = home in ODD_HOMES
    assert node.restore() == (1 if is_odd else 0)
    assert (keys.exists(), node.keys.exists()) == (is_odd, False)
    assert ("left as it is: " in capsys.readouterr().err) == is_odd


# The same of a copy, of which the record has the sum.
DAMAGED = {
    "another content": ("echo x >>$COPY", "is not the copy that the run made"),
    "a link": ("mv $COPY x; ln -s ../../x $COPY", "is a link"),
    "a folder is a link": ("mv etc e; ln -s e etc", "is a link"),
    "others may write in its folder": ("chmod 777 ${COPY%/*}", "other than root may write in"),
    "it is gone": ("rm $COPY", "is missing"),
    "a pipe": ("rm $COPY; mkfifo $COPY", "is not a regular file"),
}


@pytest.mark.parametrize(("change", "why"), DAMAGED.values(), ids=DAMAGED)
def test_a_copy_that_is_another(node: Node, change: str, why: str) -> None:
    """Nothing of it is written."""
    node.conf.write_text("{}\n")
    node.write(node.conf, '{"a": 1}\n')
    below = node.top / FIRST / str(node.place).lstrip("/")
    restore_sh = node.leave()
    sh(f"cd {below} && COPY=etc/docker/daemon.json && {change}")
    with pytest.raises((Unusable, Refused)) as error:
        node.restore()
    assert node.at_console(restore_sh)[0] == 1
    assert why in str(error.value)
    assert node.conf.read_text() == '{"a": 1}\n'


def test_the_newest_runs_come_first(node: Node) -> None:
    """By the node's clock, not by the names that controllers give; other folders are no runs."""
    for name, seconds in ((THIRD, 100), (FIRST, 200), (SECOND, 300)):
        node.begin(name)
        node.write(node.keys, f"{name}\n")
        os.utime(node.top / name / "manifest", (seconds, seconds))
    (node.top / "a folder").mkdir()
    (node.top / "20270101T000000Z").mkdir()
    assert [record.name for record in node.files.runs()] == [SECOND, FIRST, THIRD]


def test_reading_changes_nothing(node: Node) -> None:
    """No folder is made or closed."""
    node.files.runs()
    assert not node.top.exists()
    node.write(node.keys, "key\n")
    node.top.chmod(0o755)
    node.files.runs()
    assert node.top.stat().st_mode & 0o777 == 0o755


def test_an_answer_without_end(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection's limit ends the restore with a reason, not with a traceback."""

    def endless(*_: object, **__: object) -> None:
        raise OverflowError("it sends more than 16 MiB")

    monkeypatch.setattr(node.files.host.connector, "run_shell_command", endless)
    with pytest.raises(Refused, match="more than 16 MiB"):
        node.restore()


def test_without_root(node: Node) -> None:
    """It is not taken for a node without runs."""
    node.write(node.keys, "key\n")
    command = script("runs", top=str(node.top), most_runs="1", most_bytes="1", most_lines="1")
    asked = as_run("as_user_within", user=USER, as_user=AS_USER, run=command.get_raw_value())
    done = run(StringCommand(f'{asked}\nas_user_within 20 "$run"'), node.shell)
    assert (done.code, done.out) == (0, "closed\n")


# What a script changes beside files; a package's name is the second word of a line.
PACKAGES = """#!/bin/sh
cat {folder}/packages
"""


@pytest.mark.parametrize("code", [0, 1])
def test_packages_are_noted(node: Node, tmp_path: Path, code: int) -> None:
    """What differs at the end, also of a script that fails, and no more."""
    there = tmp_path / "packages"
    there.write_text("ii  same 1\nii  old 1\nrc  removed 1\n")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "dpkg-query").write_text(PACKAGES.format(folder=tmp_path))
    (bin_folder / "rpm").write_text("#!/bin/sh\nexit 1\n")
    for each in bin_folder.iterdir():
        each.chmod(0o755)
    body = f"echo 'ii  same 1\nii  old 2\nii  new 1' >{there}\nexit {code}\n"
    noted(node, f"PATH={bin_folder}:$PATH\nnote packages\n{body}", code)
    (record,) = node.files.runs()
    assert {" ".join(each) for each in record.also} == {"- deb old 1", "+ deb old 2", "+ deb new 1"}


@pytest.mark.parametrize("code", [0, 1])
def test_a_copy_is_noted_if_it_succeeds(node: Node, code: int) -> None:
    path = "/opt/a b\\c $(reboot)"
    noted(node, f"note copy alice {shlex.quote(path)}\nexit {code}", code)
    noted_line = ("+", "copy", "alice", path)
    assert [record.also for record in node.files.runs()] == [[noted_line]] * (not code)


def test_wheels_are_noted_by_their_names(node: Node, tmp_path: Path) -> None:
    """Nothing of the environment runs, and a user's name of a folder begins no other line."""
    prefix = tmp_path / "my env"
    packages = prefix / "lib" / "python3.10" / "site-packages"
    (packages / "nvidia_nccl_cu12-2.20.5.dist-info").mkdir(parents=True)
    forged = "a\ndeb systemd 1\nb.dist-info"
    move = (
        f"cd '{packages}' && mv nvidia_nccl_cu12-2.20.5.dist-info nvidia_nccl_cu12-2.18.1.dist-info"
    )
    noted(node, f"note wheels alice '{prefix}'\n{move} && mkdir '{forged}'", 0)
    (record,) = node.files.runs()
    assert {*record.also} == {
        ("-", "wheels", "alice", str(prefix), "nvidia_nccl_cu12-2.20.5.dist-info"),
        ("+", "wheels", "alice", str(prefix), "nvidia_nccl_cu12-2.18.1.dist-info"),
    }


def test_a_file_that_a_script_puts(node: Node) -> None:
    """It is as in a replacement, and a second one in the run keeps the first copy."""
    node.conf.write_text("{}\n")
    node.conf.chmod(0o640)
    before = kinds(node.conf)
    put = f"echo 1 | put {node.conf} && echo 2 | put {node.conf} && echo 2 | put {node.conf}"
    noted(node, put, 0)
    assert node.conf.read_text() == "2\n" and len(node.files.runs()[0].changes) == 2
    node.begin(SECOND)
    assert node.restore() == 0
    assert kinds(node.conf) == before
    node.begin(THIRD)
    noted(node, f"kept {node.conf} '' && rm {node.conf}", 0)
    node.begin(FOURTH)
    assert node.restore() == 0
    assert kinds(node.conf) == before


def noted(node: Node, body: str, code: int) -> None:
    """Run sh with the functions of noted.sh, in the run that has begun."""
    first = "".join(text(each) for each in ("writers", "closed", "place", "record", "noted"))
    command = StringCommand(f"set -u\nbackups={replacement.backups()}\n{first}{body}")
    done = run(command, node.shell)
    assert (done.code, done.err) == (code, "")


def test_a_key_that_an_onboarding_puts_in(node: Node) -> None:
    """authorize.sh has it in the manifest of its run."""
    node.keys.parent.mkdir()
    node.keys.write_text("old\n")
    node.keys.chmod(0o600)
    before = kinds(node.keys)
    words = {"home": str(node.place), "line": "ssh-ed25519 AAAA us"}
    command = StringCommand(as_run("authorize", **words, backups=replacement.backups()))
    done = run(command, node.shell)
    assert (done.code, done.out.strip()) == (0, "changed")
    assert "AAAA us" in node.keys.read_text()
    node.begin(SECOND)
    assert node.restore() == 0
    assert kinds(node.keys) == before


@pytest.mark.parametrize(
    ("also", "words"),
    [
        ("- deb a 1|+ deb a 2|+ rpm b 2|- wheels root /e x-1.dist-info", "2 packages, 1 wheel"),
        ("- base-wheels root /e x-1.dist-info|+ base-wheels root /e x-2.dist-info", "1 wheel"),
        ("+ module nvidia 1 2", "1 kernel module"),
        ("+ cmake a /b|+ workspace a /b /c", "1 cmake, 1 workspace"),
        ("+ copy a /b", "1 copied environment"),
        ("+ persistence x", "1 enabled service"),
        ("", "nothing"),
    ],
)
def test_a_run_without_files_says_what_it_changed(also: str, words: str) -> None:
    """A run that has only installed packages is no run of `0 files`."""
    lines = [f"also {line}" for line in filter(None, also.split("|"))]
    (run,) = parse([f"run {int(MIDNIGHT.timestamp())} {FIRST}", *lines, "end"])
    assert run_shown(run) == f"{FIRST} ({words}, 2026-11-29 00:00 UTC)"
