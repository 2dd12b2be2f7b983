"""The timer that undoes a change survives the session's end, and what it is to undo a reboot."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.replace import confirm, replace, restore
from gpu_node.facts.probe.file_bytes import FileContent
from tests import node_scripts
from tests.node_scripts import Ended, run, run_apart, tree, until

OLD = FileContent(exists=True, text="old", problem="")
ABSENT = FileContent(exists=False, text="", problem="")
UNIT = "/etc/systemd/system/gpu-node-undo.service"
WANTED = "/etc/systemd/system/multi-user.target.wants/gpu-node-undo.service"
# It starts what it is given beside every session, as systemd does, and notes its words.
SYSTEMD_RUN = """#!/bin/sh
echo "$@" >>{folder}/units
[ ! -e {folder}/refuses ] || exit 1
while case $1 in -*) ;; *) false ;; esac; do shift; done
env -i PATH="$PATH" setsid "$@" </dev/null >/dev/null 2>>{folder}/journal &
"""
SYSTEMCTL = '#!/bin/sh\necho "$@" >>{folder}/called\n'
HOME = """mount -t tmpfs -o mode=755 tmpfs /mnt; mkdir /mnt/home; cd /mnt/home
echo -n old >conf; chmod 600 conf; chown -R nobody /mnt/home
mkdir -p /run/systemd; mount -t tmpfs tmpfs /run/systemd; mkdir /run/systemd/system
mkdir -p /etc/systemd/system; mount -t tmpfs tmpfs /etc/systemd/system"""
# What the unit at boot runs, as systemd reads it.
BOOT = f"""eval "$(sed -n 's/^ExecStart=//p' {UNIT} | sed 's/\\$\\$/$/g')\""""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with stand-ins of systemd's programs, and what they note."""
    folder = tmp_path / "systemd"
    folder.mkdir()
    for name, text in (("systemd-run", SYSTEMD_RUN), ("systemctl", SYSTEMCTL)):
        (folder / name).write_text(text.format(folder=folder))
        (folder / name).chmod(0o755)
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", f"{folder}:")
    return folder


@pytest.fixture
def on_a_node(
    shell: str, systemd: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int, list[str], str], Ended]:
    """Replace a user's file on a node with systemd; what holds after it."""
    monkeypatch.setattr(replacement, "backups", lambda: "/mnt/backups/RUN")
    monkeypatch.setattr(replacement, "PENDING", "/mnt/lib/pending")

    def run(seconds: int, after: list[str], check: str = "") -> Ended:
        command = replace("/mnt/home/conf", OLD, "new", check, seconds, user="nobody")
        return run_apart(command, shell, HOME, after)

    return run


def sh(command: object) -> str:
    """A command of the deploy as one word of a line."""
    return f"sh -c {shlex.quote(command.get_raw_value())}"  # type: ignore[attr-defined]


TIDY = 'for each in $(seq 2000); do [ "$(ls -A)" = conf ] && break; sleep 0.02; done'
SOON = 'for each in $(seq 2000); do [ "$(cat conf)" = old ] && break; sleep 0.02; done'

# The record goes first, then the unit that waits for a boot.
SETTLED = f"""for each in $(seq 2000); do
  [ -e /mnt/lib/pending ] || [ -e {UNIT} ] || [ -L {WANTED} ] || break
  sleep 0.02
done"""


def test_a_unit_keeps_the_time(on_a_node: Callable[[int, list[str]], Ended], systemd: Path) -> None:
    """It is in no session, and undoes the change as the owner of the file, without a backup."""
    done = on_a_node(
        1,
        [
            "rm -r /mnt/backups",
            SOON,
            '[ "$(stat -c %U:%a conf)" = nobody:600 ] && [ "$(cat conf)" = old ]',
            SETTLED,
            '[ "$(ls -A /mnt/home /mnt/lib | tr "\\n" " ")" = "/mnt/home: conf  /mnt/lib: " ]',
            f"[ ! -e {UNIT} ] && [ ! -L {WANTED} ]",
        ],
    )
    assert (done.code, done.err) == (0, "")
    assert "--unit=gpu-node-undo-" in (systemd / "units").read_text()
    assert not (systemd / "called").exists()  # a reload takes GPUs from running containers


def test_systemd_that_refuses(on_a_node: Callable[[int, list[str]], Ended], systemd: Path) -> None:
    """As in a container: a process apart keeps the time."""
    (systemd / "refuses").touch()
    done = on_a_node(1, [SOON, '[ "$(cat conf)" = old ]'])
    assert (done.code, done.err) == (0, "")


def test_what_waits_at_a_reboot(on_a_node: Callable[[int, list[str]], Ended]) -> None:
    """A unit at boot undoes it, and is gone after that; only root can read what it runs."""
    done = on_a_node(
        900,
        [
            f"[ -e {UNIT} ] && [ -e {WANTED} ]",
            '[ "$(stat -c %U:%a /mnt/lib/pending)" = root:700 ]',
            '[ "$(cat conf)" = new ]',
            BOOT,
            '[ "$(stat -c %U:%a conf)" = nobody:600 ] && [ "$(cat conf)" = old ]',
            f"[ ! -e {UNIT} ] && [ ! -L {WANTED} ] && [ ! -e /mnt/lib/pending ]",
            '[ "$(ls -A /mnt/home)" = conf ]',
        ],
    )
    assert (done.code, done.err) == (0, "")


def test_a_confirmed_change_at_a_reboot(on_a_node: Callable[[int, list[str]], Ended]) -> None:
    """Nothing waits, and nothing is undone."""
    done = on_a_node(
        900,
        [
            f"cp {UNIT} /mnt/unit; cp -r /mnt/lib/pending /mnt/copy",
            sh(confirm("/mnt/home/conf", user="nobody")),
            f"[ ! -e {UNIT} ] && [ ! -L {WANTED} ] && [ ! -e /mnt/lib/pending ]",
            # Power that fails before the record is gone: `kept` is on the disk first.
            f"cp -r /mnt/copy /mnt/lib/pending; cp /mnt/unit {UNIT}",
            "touch $(echo /mnt/lib/pending/*)/kept",
            BOOT,
            '[ "$(cat conf)" = new ] && [ ! -e /mnt/lib/pending ]',
        ],
    )
    assert (done.code, done.err) == (0, "")


def test_a_home_that_is_mounted_late(on_a_node: Callable[[int, list[str]], Ended]) -> None:
    """What cannot be put back waits on; the next run settles it."""
    done = on_a_node(
        900,
        [
            "mv /mnt/home /mnt/away",
            f"! {sh(restore('/mnt/home/conf', 'nobody'))}",
            "ls /mnt/lib/pending/*/undo",
            "mv /mnt/away /mnt/home",
            sh(restore("/mnt/home/conf", "nobody")),
            '[ "$(cat /mnt/home/conf)" = old ] && [ ! -e /mnt/lib/pending ]',
        ],
    )
    assert (done.code, done.err.splitlines()) == (
        0,
        ["gpu-node: /mnt/home/conf: its folder does not exist; it could not be restored"],
    )


def test_a_change_that_takes_long(
    on_a_node: Callable[[int, list[str], str], Ended],
) -> None:
    """The time is over before the file is replaced: it is undone at once after that."""
    done = on_a_node(1, [SOON, TIDY, '[ "$(cat conf)" = old ] && [ "$(ls -A)" = conf ]'], "sleep 3")
    assert (done.code, done.err) == (0, "")


def test_a_user_who_stops_it(shell: str, systemd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe in the file's place is not waited for: nothing is changed."""
    monkeypatch.setattr(replacement, "backups", lambda: "/mnt/backups/RUN")
    monkeypatch.setattr(replacement, "PENDING", "/mnt/lib/pending")
    command = replace("/mnt/home/conf", OLD, "new", "", 900, user="nobody")
    done = run_apart(
        command, shell, f"{HOME}; rm conf; mkfifo conf; chown nobody conf", ["[ -p conf ]"]
    )
    assert done.code == 1
    assert done.err == (
        "gpu-node: /mnt/home/conf: cannot be read, or changed while we worked; left as it is, "
        "run again\n"
    )


def test_a_change_that_is_tried_again(
    on_a_node: Callable[[int, list[str]], Ended], systemd: Path
) -> None:
    """Each try has a unit with a name of its own: systemd refuses one that is there."""
    again = replace("/mnt/home/conf", OLD, "new", "", 900, user="nobody")
    undone = sh(restore("/mnt/home/conf", "nobody"))
    line = next(iter(again.connector_arguments["_stdin"]))
    # In quotes in quotes it is longer than one argument may be.
    script = systemd / "again.sh"
    script.write_text(again.get_raw_value())
    done = on_a_node(900, [undone, f"PATH={systemd}:$PATH; echo {shlex.quote(line)} | sh {script}"])
    assert (done.code, done.err) == (0, "")
    reported = (systemd / "units").read_text().splitlines()
    units = [line.split()[0] for line in reported if "--unit" in line]
    assert len(units) == len({*units}) == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file that says `old`."""
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "conf").write_text("old")
    return folder


def test_the_end_of_the_session(
    folder: Path, backups: Path, pending: Path, shell: str, clock: Path
) -> None:
    """Without systemd the process that waits is in a session of its own."""
    assert run(replace(str(folder / "conf"), OLD, "new", confirm_seconds=9), shell).code == 0
    (record,) = pending.iterdir()
    waits = until(lambda: _waiting(record))
    assert waits and os.getsid(_waiting(record)[0]) != os.getsid(0)
    (clock / "go").touch()
    assert until(lambda: tree(folder) == {"conf": b"old"})


def _waiting(record: Path) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = file.read_bytes().split(b"\0")
            if b"-c" in words and os.fsencode(record) in words:
                found.append(int(file.parent.name))
    return found


def test_a_killed_timer(folder: Path, backups: Path, pending: Path, shell: str) -> None:
    """The next run finds all that it needs."""
    assert run(replace(str(folder / "conf"), OLD, "new", confirm_seconds=60), shell).code == 0
    (record,) = pending.iterdir()
    assert until(lambda: _waiting(record))
    for pid in _waiting(record):
        os.kill(pid, signal.SIGKILL)
    assert (record / "about").read_text() == (backups / "manifest").read_text()
    done = run(restore(str(folder / "conf")), shell)
    assert (done.code, done.err, tree(folder)) == (0, "", {"conf": b"old"})
    assert not pending.exists()


# It ends the shell that calls it when the file is in place, once.
MV = """#!/bin/sh
/bin/mv "$@" || exit
case $* in *' {file}') [ -e {once} ] || { touch {once}; kill -9 $PPID; } ;; esac
"""


def test_a_shell_that_is_killed(folder: Path, backups: Path, systemd: Path, shell: str) -> None:
    """With the file replaced: what it held is put back in time."""
    file = folder / "conf"
    once = str(systemd / "once")
    (systemd / "mv").write_text(MV.replace("{file}", str(file)).replace("{once}", once))
    (systemd / "mv").chmod(0o755)
    assert run(replace(str(file), OLD, "new", confirm_seconds=1), shell).code not in (0, 1)
    assert until(lambda: tree(folder) == {"conf": b"old"})


# The Nth call of one of these programs is the last that the run does.
NTH = """#!/bin/sh
echo >>{folder}/calls
[ "$(wc -l <{folder}/calls)" != "$LAST" ] || kill -9 0
PATH=${PATH#*:} exec "${0##*/}" "$@"
"""


@pytest.mark.slow
def test_killed_at_any_point(
    folder: Path, backups: Path, pending: Path, systemd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run settles what waits, changes the file, and leaves nothing else."""
    file = str(folder / "conf")
    for name in ("sha256sum", "dd", "mv"):
        (systemd / name).write_text(NTH.replace("{folder}", str(systemd)))
        (systemd / name).chmod(0o755)
    for last in range(1, 99):
        (systemd / "calls").unlink(missing_ok=True)
        monkeypatch.setattr(replacement, "backups", lambda run=last: f"{backups.parent}/{run}")
        killed = replace(file, OLD, "new", confirm_seconds=60)
        done = subprocess.run(
            ["dash", "-c", killed.get_raw_value()],
            input="".join(killed.connector_arguments["_stdin"]) + "\n",
            env={**node_scripts.environment("dash"), "LAST": str(last)},
            text=True,
            check=False,
            start_new_session=True,
        )
        if [*pending.glob("[!.]*/about")]:
            run(restore(file), "dash")
        if done.returncode == 0:
            break
        monkeypatch.setattr(replacement, "backups", lambda: f"{backups.parent}/next")
        assert run(replace(file, OLD, "new", confirm_seconds=60), "dash").code == 0
        assert run(restore(file), "dash").code == 0
        assert not pending.exists() and tree(folder) == {"conf": b"old"}, last
    assert last > 5


@pytest.mark.parametrize("existed", [True, False])
def test_changed_since(
    folder: Path, backups: Path, pending: Path, shell: str, existed: bool
) -> None:
    """Another user's change stays, and that is reported once."""
    file = folder / ("conf" if existed else "new")
    old = OLD if existed else ABSENT
    assert run(replace(str(file), old, "new", confirm_seconds=60), shell).code == 0
    file.write_text("theirs")
    done = run(restore(str(file)), shell)
    assert (done.code, file.read_text()) == (1, "theirs")
    assert "was changed by another program, and left as it is" in done.err
    assert not pending.exists() and not list(folder.glob(".*"))


@pytest.mark.parametrize("planted", ["link", "open"])
def test_a_folder_of_others(
    folder: Path, backups: Path, pending: Path, shell: str, planted: str
) -> None:
    """What root is to run lies where only root can write, or nothing is changed."""
    pending.parent.mkdir()
    if planted == "link":
        (folder.parent / "theirs").mkdir()
        pending.symlink_to(folder.parent / "theirs")
    else:
        pending.mkdir()
        pending.chmod(0o777)
    done = run(replace(str(folder / "conf"), OLD, "new", confirm_seconds=60), shell)
    assert (done.code, tree(folder)) == (1, {"conf": b"old"})
    assert "is not a folder that only root can read; nothing was changed" in done.err
    assert not list(pending.iterdir())


def test_a_refused_change_leaves_no_record(
    folder: Path, backups: Path, pending: Path, shell: str
) -> None:
    """There is nothing to undo."""
    command = replace(str(folder / "conf"), OLD, "new", check="false", confirm_seconds=60)
    assert run(command, shell).code == 1
    assert not pending.exists()
    changed = replace(str(folder / "conf"), {**OLD, "text": "other"}, "new", confirm_seconds=60)
    done = run(changed, shell)
    assert (done.code, pending.exists(), tree(folder)) == (1, False, {"conf": b"old"})
