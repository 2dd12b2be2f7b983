"""A restore, with the scripts really run: from the records of runs to the files as they were."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, StringCommand
from pyinfra.connectors.util import CommandOutput, OutputLine

from gpu_node.deploy.console import UserConsole
from gpu_node.deploy.engine.scripts import as_run, script, text
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.replace import confirm, replace
from gpu_node.deploy.restore import node as on_node
from gpu_node.deploy.restore import restoring
from gpu_node.deploy.restore.node import NodeFiles, Refused, sum_of_content
from gpu_node.deploy.restore.records import RunRecord, Unusable, parse
from gpu_node.deploy.restore.restoring import Asked, NoSuchRun, NotRestored, _Restoring
from gpu_node.deploy.restore.walk import Target, target
from gpu_node.facts.ask.execute import Rights
from gpu_node.facts.probe.training_user import AS_USER
from tests.deploy.accounts import AS_ROOT, OTHER, USER, USER_ID
from tests.deploy.accounts import place as place  # the fixture
from tests.node_scripts import run, tree

pytestmark = AS_ROOT
USER_GROUP = pwd.getpwuid(USER_ID).pw_gid
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

    def write(self, path: Path, new: str | None, user: str = "", **more: Any) -> None:
        """Write a file as a deploy does; None removes it."""
        old = self.files.content(str(path), user)
        done = run(replace(str(path), old, new, user=user, **more), self.shell)
        assert (done.code, done.err) == (0, "")

    def target(self, path: Path, user: str = "root", runs: Sequence[RunRecord] = ()) -> Target:
        """How a file is put back."""
        now = sum_of_content(self.files.content(str(path), user))
        return target(str(path), now, runs or self.files.runs()[:1])

    def restore(self, yes: bool = True, **asked: Any) -> int:
        """Restore as the command does."""
        given = Asked("site.yml", "n", **asked)
        return _Restoring(given, UserConsole(yes), self.files, [""], lambda *_: None).done()

    def back(self, path: Path, user: str = "root") -> str:
        """Put one file back; why that failed."""
        found = self.target(path, user)
        new = self.files.backup(found)["text"] if found.before != "absent" else None
        return self.files.put_back(found, self.files.content(str(path), user), new)[0]


def kinds(*paths: Path) -> list[tuple[str, int, int, int] | None]:
    """What a restore gives back of each file: content, mode and owner."""
    found: list[tuple[str, int, int, int] | None] = []
    for path in paths:
        status = path.stat() if path.exists() else None
        kept = status and (path.read_text(), status.st_mode, status.st_uid, status.st_gid)
        found.append(kept)
    return found


@pytest.fixture
def node(place: Path, shell: str, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node that nothing uses; each change that must be confirmed is, by a session here."""
    monkeypatch.setattr(NodeFiles, "require_idle", lambda self: None)

    def kept(host: Host, path: str, rights: Rights, after: str = "", **given: Any) -> str:
        done = run(confirm(path, after, given["user"]), shell)
        return done.err if done.code else ""

    monkeypatch.setattr(on_node, "not_kept", kept)
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
    left = {path for path in tree(node.place) if not path.startswith("backups/")}
    assert left == {"etc/docker/daemon.json", "home/.bashrc"}
    # The restore is the last run now.
    node.begin(THIRD)
    assert node.restore() == 0
    assert kinds(*files) == after
    assert node.restore(run=FIRST) == 0
    assert kinds(*files) == before


def test_a_removed_file_has_its_mode_and_group_again(node: Node) -> None:
    """As a restore removes it, and a restore of that one makes it again."""
    node.conf.write_text("{}\n")
    node.conf.chmod(0o640)
    shutil.chown(node.conf, "root", OTHER)
    before = kinds(node.conf)
    node.write(node.conf, None)
    assert kinds(node.conf) == [None]
    assert node.back(node.conf) == ""
    assert kinds(node.conf) == before


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
    monkeypatch.setattr(on_node, "not_kept", lambda *_, **__: "no new session")
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
    monkeypatch.setattr(on_node, "not_kept", lambda *_, **__: "no new session")
    node.write(node.keys, "new\n", mode="600")
    before = kinds(node.keys)
    node.begin(SECOND)
    assert node.restore() == 1
    assert kinds(node.keys) == before


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
    plant(node)
    with pytest.raises(Refused):
        node.restore()
    assert secret.read_text() == "root's\n"


def test_a_user_swaps_the_file_after_it_was_read(node: Node) -> None:
    """What is written is written as that user, who cannot open root's file."""
    secret = node.place / "secret"
    secret.write_text("ours\n")
    secret.chmod(0o644)
    node.write(node.bashrc, "ours\n", user=USER)
    found, now = node.target(node.bashrc, USER), node.files.content(str(node.bashrc), USER)
    node.bashrc.unlink()
    node.bashrc.symlink_to(secret)
    problem, _ = node.files.put_back(found, now, None)
    assert problem
    assert secret.read_text() == "ours\n" and secret.stat().st_uid == 0


def sh(script: str) -> None:
    """Run a script as root."""
    subprocess.run(["sh", "-ec", script], check=True)


# How the records of a run are no longer as root has written them, and why they are refused.
TAMPERED = {
    "the manifest is a link": ("mv manifest m; ln -s m manifest", "manifest is a link"),
    "a user's manifest": (f"chown {USER} manifest", "belongs to another user"),
    "others may write it": ("chmod 666 manifest", "other than root may write in"),
    "a group may write it": ("chmod 664 manifest", "other than root may write in"),
    "the folder is a user's": (f"chown {USER} .", "belongs to another user"),
    "others may write in the folder": ("chmod 777 .", "other than root may write in"),
    "the folder of all runs is open": ("chmod 777 ..", "other than root may write in"),
    "too large": ("head -c 300000 /dev/zero | tr '\\0' x >>manifest", "has more than"),
    "the run is a link": ("cd ..; mv $RUN 1; ln -s 1 $RUN", "is a link"),
}


@pytest.mark.parametrize(("change", "why"), TAMPERED.values(), ids=TAMPERED)
def test_a_record_that_another_could_have_written(node: Node, change: str, why: str) -> None:
    node.write(node.keys, "key\n")
    sh(f"cd {node.top / FIRST} && RUN={FIRST} && {change}")
    with pytest.raises(Unusable) as error:
        node.restore()
    assert node.keys.exists() and why in str(error.value)


def test_records_of_many_lines(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more lines of one record are read than are used, and no more bytes of all records."""
    for name in (FIRST, SECOND, THIRD):
        node.begin(name)
        node.write(node.keys, f"{name}\n")
        for record in ("manifest", "also"):
            sh(f"head -c 200000 /dev/zero | tr '\\0' '\\n' >>{node.top / name / record}")
        os.utime(node.top / name / "manifest", (int(name[:8]),) * 2)
    monkeypatch.setattr(on_node, "MOST_READ", 900_000)
    sent: list[int] = []

    def parsed(lines: Sequence[str]) -> tuple[RunRecord, ...]:
        sent.append(len(lines))
        return parse(lines)

    monkeypatch.setattr(on_node, "parse", parsed)
    third, second, first = node.files.runs()
    assert sent[0] < 6 * 700
    assert "more than 600 lines" in third.problem and "more than 600 lines" in second.problem
    assert "those of newer runs have too many bytes" in first.problem


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
    "another content": ("echo x >>$COPY", "it is not the copy that the run made"),
    "a link": ("mv $COPY x; ln -s ../../x $COPY", "is a link"),
    "a folder is a link": ("mv etc e; ln -s e etc", "etc is a link"),
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
    sh(f"cd {below} && COPY=etc/docker/daemon.json && {change}")
    with pytest.raises((Unusable, Refused)) as error:
        node.restore()
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


def test_files_that_fill_the_memory(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is within its limit, all together are not: nothing is written."""
    monkeypatch.setattr(restoring, "MOST_TOTAL", 1 << 20)
    node.conf.write_text("x" * 600_000)
    node.write(node.conf, "y" * 600_000)
    with pytest.raises(Unusable, match="more than 1 MiB"):
        node.restore()
    assert node.conf.read_text().startswith("y")


def test_without_root(node: Node) -> None:
    """It is not taken for a node without runs."""
    node.write(node.keys, "key\n")
    command = script(
        "runs", top=str(node.top), most_runs="1", most_bytes="1", most_lines="1", most_total="1"
    )
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
    assert [record.also for record in node.files.runs()] == [(noted_line,)] * (not code)


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
