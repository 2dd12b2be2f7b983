"""place.sh: a file is on the disk before it is renamed, and is renamed into no folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import as_run, script, text
from gpu_node.deploy.files.replace import confirm, replace
from gpu_node.facts.probe.file_bytes import FileContent
from tests import node_scripts
from tests.node_scripts import Ended, run

OLD = FileContent(exists=True, text="old", problem="")
_LOG = """#!/bin/sh
for each; do last=$each; done
case $0 in */dd) for each; do case $each in of=*) last=${each#of=} ;; esac; done ;; esac
echo "${0##*/} ${last##*/}" >>HERE/log
case " $*" in *fsync*) [ ! -e HERE/broken ] || exit 1 ;; esac
PATH=${PATH#*:}
exec "${0##*/}" "$@"
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What dd and mv were called for, in this order: the last argument, or what dd writes."""
    folder = tmp_path / "logging"
    folder.mkdir()
    for name in ("dd", "mv"):
        (folder / name).write_text(_LOG.replace("HERE", str(folder)))
        (folder / name).chmod(0o755)
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", f"{folder}:")
    return folder / "log"


def test_a_replaced_file(tmp_path: Path, backups: Path, shell: str, log: Path) -> None:
    """The backup and the new file are on the disk before the old one is gone."""
    (tmp_path / "conf").write_text("old")
    done = run(replace(str(tmp_path / "conf"), OLD, "new"), shell)
    assert (done.code, done.err) == (0, "")
    assert log.read_text().split("\n") == [
        "dd conf",
        "dd manifest",
        "dd .conf.gpu-node",
        "mv conf",
        "",
    ]


def test_a_key_that_is_let_in(tmp_path: Path, shell: str, log: Path) -> None:
    """Else a crash could leave an empty authorized_keys, which refuses every login."""
    given = {"home": str(tmp_path), "line": "ssh-ed25519 AAAA a", "backups": ""}
    done = run(StringCommand(as_run("authorize", **given)), shell)
    assert (done.code, done.err) == (0, "")
    assert log.read_text().split("\n")[:2] == ["dd .authorized_keys.gpu-node", "mv authorized_keys"]


def test_what_cannot_be_written_to_the_disk(
    tmp_path: Path, backups: Path, shell: str, log: Path
) -> None:
    """As on a full disk, or one that fails: the old file stays."""
    (tmp_path / "conf").write_text("old")
    (log.parent / "broken").touch()
    done = run(replace(str(tmp_path / "conf"), OLD, "new"), shell)
    assert (done.code, (tmp_path / "conf").read_text()) == (1, "old")
    assert "nothing was changed" in done.err
    assert "mv" not in log.read_text()


def call(words: str, shell: str, stdin: str = "") -> Ended:
    """Call functions of place.sh."""
    command = StringCommand(f"set -u\n{text('place')}\n{words}")
    command.connector_arguments["_stdin"] = [stdin] if stdin else []
    return run(command, shell)


def test_a_link_to_a_folder(tmp_path: Path, shell: str, log: Path) -> None:
    """mv would put the file into the folder; what is there instead is replaced, or stays."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "new").write_text("new")
    call(f"place '{tmp_path}/new' '{tmp_path}/link'", shell)
    assert list((tmp_path / "folder").iterdir()) == []
    assert call(f"place '{tmp_path}/new' '{tmp_path}/folder'", shell).code != 0
    assert list((tmp_path / "folder").iterdir()) == []


def test_an_mv_without_t(tmp_path: Path, shell: str, log: Path) -> None:
    """As in an older busybox: it is seen before that no folder is there."""
    old = '#!/bin/sh\ncase $1 in *T*) exit 1 ;; esac\nexec /bin/mv "$@"\n'
    (log.parent / "mv").write_text(old)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("new", "other"):
        (tmp_path / name).write_text(name)
    assert call(f"place '{tmp_path}/new' '{tmp_path}/other'", shell).code == 0
    assert (tmp_path / "other").read_text() == "new"
    assert call(f"place '{tmp_path}/other' '{tmp_path}/link'", shell).code != 0
    assert list((tmp_path / "folder").iterdir()) == []


def test_put(tmp_path: Path, shell: str, log: Path) -> None:
    """The folder is made, the mode stays, and what a killed run left is no obstacle."""
    file = tmp_path / "new.d" / "conf"
    assert call(f"put '{file}'", shell, "one").code == 0
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("one\n", 0o644)
    file.chmod(0o640)
    (tmp_path / "victim").write_text("theirs")
    (file.parent / "conf.gpu-node").symlink_to(tmp_path / "victim")
    assert call(f"put '{file}'", shell, "two").code == 0
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("two\n", 0o640)
    assert (tmp_path / "victim").read_text() == "theirs"
    assert [path.name for path in file.parent.iterdir()] == ["conf"]
    assert log.read_text().split("\n")[:2] == ["dd conf.gpu-node", "mv conf"]


@pytest.mark.parametrize("name", ["persistence", "hold_kernel", "nouveau", "packages_deb"])
def test_no_other_rename(name: str) -> None:
    """What these scripts write is renamed by place.sh alone."""
    body = script(name).get_raw_value().replace(text("place"), "")
    assert "put " in body and "mv -f" not in body


def test_what_is_to_be_undone(tmp_path: Path, backups: Path, shell: str, log: Path) -> None:
    """The record by which a change is undone after a crash is there before the change."""
    (tmp_path / "conf").write_text("old")
    command = replace(str(tmp_path / "conf"), OLD, "new", confirm_seconds=60)
    done = run(command, shell)
    assert (done.code, done.err) == (0, "")
    calls = log.read_text().split("\n")
    assert {"dd about", "dd old", "dd undo"} <= set(calls[: calls.index("mv conf")])
    assert run(confirm(str(tmp_path / "conf")), shell).code == 0


# As before coreutils 8.24.
OLD_SYNC = """#!/bin/sh
[ $# -gt 0 ] || exit 0
echo 'Usage: sync [OPTION]'
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_files_in_a_folder_of_another_account(tmp_path: Path, shell: str, log: Path) -> None:
    """They are left out: a link could take the place of one before root opens it."""
    (log.parent / "sync").write_text(OLD_SYNC)
    (log.parent / "sync").chmod(0o755)
    for name, uid, mode in (("ours", 0, 0o755), ("theirs", 1, 0o755), ("open", 0, 0o1777)):
        (tmp_path / "tree" / name / "deep").mkdir(parents=True)
        (tmp_path / "tree" / name / "deep" / name).write_text("text")
        (tmp_path / "tree" / name).chmod(mode)
        os.chown(tmp_path / "tree" / name, uid, uid)
    command = f"{text('place')}\nall_durable '{tmp_path}/tree'"
    assert run(StringCommand(command), shell) == Ended(0, "", "")
    if shell != "busybox":  # its sync is a part of it, and has -f
        assert log.read_text().splitlines() == ["dd ours"]


def test_all_files_of_a_folder(tmp_path: Path, shell: str, log: Path) -> None:
    """Also where sync has no -f: those that were just written, whatever their names are."""
    (log.parent / "sync").write_text(OLD_SYNC)
    (log.parent / "sync").chmod(0o755)
    files = [tmp_path / "tree" / name for name in ("a", "b c", "deep/-d")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    command = f"{text('place')}\nall_durable '{tmp_path}/tree'"
    assert run(StringCommand(command), shell) == Ended(0, "", "")
    if shell != "busybox":  # its sync is a part of it, and has -f
        assert sorted(log.read_text().splitlines()) == ["dd -d", "dd a", "dd b c"]
    assert [file.read_text() for file in files] == ["text"] * 3
