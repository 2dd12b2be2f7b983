"""Replacing a file, really: whole or not at all, backed up once, undone unless confirmed."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import replacement
from facts.files import FileContent
from tests.deploy.applying import SHELLS, apply, said

OLD = "# a user's line\r\n\ttabs  and \xe9 and no newline at the end"
NEW = "tmpfs /dev/shm tmpfs size=50%,mode=1777 0 0\n"
CONTENTS = {
    "plain": NEW,
    "empty": "",
    "no-newline": "a\nb",
    "percent": "%s %d %n %% size=50%\n",
    "backslashes": "\\n \\000 \\\\ \\x41 \\c\\",
    "quotes": "'\"`$HOME` $(reboot) ; reboot\n",
    "every-byte": "".join(map(chr, range(1, 256))),
    "digits-after-a-byte": "\xe90\xe97\n123",
    "blanks-at-both-ends": "  \t x \t \n \n\n",
    "long": "line %s \\ \xff\n" * 2000,
    "starts-with-a-comment": "# -n\n",
}
ABSENT: FileContent = {"exists": False, "text": ""}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Each shell that a node's sh may be."""
    return str(request.param)


@pytest.fixture(autouse=True)
def backups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where backups go in this test."""
    folder = tmp_path / "var" / "20250901T080000Z"
    monkeypatch.setattr(replacement, "BACKUPS", str(folder))
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of a user, in a folder with nothing else."""
    path = tmp_path / "etc" / "fstab"
    path.parent.mkdir()
    path.write_bytes(OLD.encode("latin-1"))
    return path


def present(text: str = OLD) -> FileContent:
    """Return the fact about a file that is there."""
    return {"exists": True, "text": text}


def is_untouched(file: Path) -> bool:
    """Whether the file has its old bytes and nothing is left beside it."""
    alone = os.listdir(file.parent) == [file.name]
    return alone and file.read_bytes().decode("latin-1") == OLD


@pytest.mark.parametrize("name", CONTENTS)
def test_the_content_arrives_byte_for_byte(name: str, shell: str, file: Path) -> None:
    """Nothing in a file is taken for a format, an escape or a command."""
    done = apply(shell, replacement.replace(str(file), present(), CONTENTS[name]))
    assert (done.returncode, done.stderr) == (0, b"")
    assert file.read_bytes() == CONTENTS[name].encode("latin-1")
    assert os.listdir(file.parent) == [file.name]


def test_the_content_is_no_argument(file: Path) -> None:
    """Nobody reads it in the node's list of processes."""
    command = replacement.replace(str(file), present(), "password=123\n")
    assert "password" not in str(command.get_raw_value())


def test_mode_and_owner_stay(shell: str, file: Path) -> None:
    """A file that only root may read is not opened to all."""
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 12, 34)
    before = file.stat()
    assert apply(shell, replacement.replace(str(file), present(), NEW)).returncode == 0
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        *(before.st_mode, before.st_uid, before.st_gid),
    )


def test_a_new_file_is_readable_by_all(shell: str, tmp_path: Path, backups: Path) -> None:
    """A file that was not there is made, its folder too, and no backup of nothing is kept."""
    path = tmp_path / "etc" / "limits.d" / "99-gpu-node.conf"
    assert apply(shell, replacement.replace(str(path), ABSENT, NEW)).returncode == 0
    assert path.read_text() == NEW
    assert path.stat().st_mode & 0o777 == 0o644
    assert not backups.exists()


def test_one_backup_a_run(shell: str, file: Path, backups: Path) -> None:
    """The backup is what a user had before the run, whatever the run wrote in between."""
    file.chmod(0o600)
    assert apply(shell, replacement.replace(str(file), present(), "first\n")).returncode == 0
    second = replacement.replace(str(file), present("first\n"), "second\n")
    assert apply(shell, second).returncode == 0
    saved = Path(f"{backups}{file}")
    assert saved.read_bytes() == OLD.encode("latin-1")
    assert saved.stat().st_mode & 0o777 == 0o600


def test_a_change_in_the_meantime_is_not_overwritten(shell: str, file: Path) -> None:
    """Somebody edited the file after it was read."""
    done = apply(shell, replacement.replace(str(file), present("something else"), NEW))
    assert "changed while we worked; left as it is, run again" in said(done)
    assert is_untouched(file)


def test_a_file_that_appeared_is_not_overwritten(shell: str, file: Path) -> None:
    """Somebody made the file after it was seen to be absent."""
    done = apply(shell, replacement.replace(str(file), ABSENT, NEW))
    assert "appeared while we worked" in said(done)
    assert is_untouched(file)


def test_a_file_that_went_away_is_not_made(shell: str, file: Path) -> None:
    """Somebody deleted the file after it was read."""
    file.unlink()
    done = apply(shell, replacement.replace(str(file), present(), NEW))
    assert "changed while we worked" in said(done)
    assert os.listdir(file.parent) == []


def test_the_check_sees_both_files_and_may_refuse(shell: str, file: Path) -> None:
    """A check that fails leaves the file as it is and says why."""
    check = 'echo "$(wc -c <"$1") and $(wc -c <"$2") bytes"; exit 3'
    done = apply(shell, replacement.replace(str(file), present(), NEW, check=check))
    assert f"the check refused it: {len(NEW)} and {len(OLD)} bytes" in said(done)
    assert is_untouched(file)


def test_a_check_that_passes(shell: str, file: Path) -> None:
    """And with it the change."""
    command = replacement.replace(str(file), present(), NEW, check='grep -q "size=50%" "$1"')
    assert apply(shell, command).returncode == 0
    assert file.read_text() == NEW


def test_a_full_disk_leaves_the_file(shell: str, file: Path) -> None:
    """No room for the new content: the old one stays, and no half of the new one beside it."""
    command = replacement.replace(str(file), present(), "x" * 200_000)
    done = apply(shell, command, largest_file=4096)
    assert "disk full?" in said(done)
    assert "nothing was changed" in said(done)
    assert is_untouched(file)


def test_no_room_for_the_backup_leaves_the_file(shell: str, file: Path) -> None:
    """Without a backup nothing is changed."""
    done = apply(shell, replacement.replace(str(file), present(), NEW), largest_file=8)
    assert "cannot be backed up; nothing was changed" in said(done)
    assert is_untouched(file)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a file in a folder that others than root may only read; backups can be kept."""
    with tempfile.TemporaryDirectory() as name:
        folder, backups = Path(name), Path(name) / "backups"
        backups.mkdir()
        backups.chmod(0o777)
        (folder / "fstab").write_bytes(OLD.encode("latin-1"))
        monkeypatch.setattr(replacement, "BACKUPS", f"{backups}/20250901T080000Z")
        folder.chmod(0o555)
        yield folder / "fstab"
        folder.chmod(0o755)


def test_a_read_only_folder_leaves_the_file(shell: str, closed: Path) -> None:
    """Nothing can be written beside the file: it stays, and that is said."""
    nobody = 65534 if os.geteuid() == 0 else None
    done = apply(shell, replacement.replace(str(closed), present(), NEW), user=nobody)
    assert "cannot write beside it; nothing was changed" in said(done)
    assert closed.read_bytes() == OLD.encode("latin-1")
    assert sorted(os.listdir(closed.parent)) == ["backups", "fstab"]


def test_a_link_stays_a_link(shell: str, file: Path, tmp_path: Path) -> None:
    """/etc/fstab may be a link; what it points to is replaced, and backed up."""
    link = tmp_path / "link"
    link.symlink_to(file)
    assert apply(shell, replacement.replace(str(link), present(), NEW)).returncode == 0
    assert link.is_symlink()
    assert file.read_text() == NEW
    assert Path(f"{replacement.BACKUPS}{file}").read_bytes() == OLD.encode("latin-1")


def test_restore_puts_back_what_was_there(shell: str, file: Path) -> None:
    """Bytes and mode are those from before the run."""
    file.chmod(0o600)
    assert apply(shell, replacement.replace(str(file), present(), NEW)).returncode == 0
    assert apply(shell, replacement.restore(str(file), existed=True)).returncode == 0
    assert is_untouched(file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_restore_takes_away_what_was_not_there(shell: str, tmp_path: Path) -> None:
    """A file that the run made is gone again."""
    path = tmp_path / "99-gpu-node.conf"
    assert apply(shell, replacement.replace(str(path), ABSENT, NEW)).returncode == 0
    assert apply(shell, replacement.restore(str(path), existed=False)).returncode == 0
    assert not path.exists()


def test_restore_without_a_backup_keeps_what_is_there(shell: str, file: Path) -> None:
    """Nothing to put back is a failure, and no reason to delete the file."""
    assert said(apply(shell, replacement.restore(str(file), existed=True)))
    assert is_untouched(file)


def test_the_node_undoes_what_nobody_confirms(shell: str, file: Path, tmp_path: Path) -> None:
    """After the time limit an old file is back and a new one gone; confirmed ones stay."""
    made, kept = tmp_path / "etc" / "made.conf", tmp_path / "kept" / "kept.conf"
    for path, old in ((file, present()), (made, ABSENT), (kept, ABSENT)):
        done = apply(shell, replacement.replace(str(path), old, NEW, confirm_seconds=1))
        assert done.returncode == 0
        assert path.read_text() == NEW
    assert apply(shell, replacement.confirm(str(kept))).returncode == 0
    deadline = time.monotonic() + 10
    while not is_untouched(file) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert is_untouched(file)
    assert os.listdir(kept.parent) == ["kept.conf"]
    assert kept.read_text() == NEW


def test_a_confirmation_that_comes_too_late_is_refused(shell: str, file: Path) -> None:
    """What was undone already cannot be kept."""
    assert apply(shell, replacement.replace(str(file), present(), NEW)).returncode == 0
    assert "was undone already" in said(apply(shell, replacement.confirm(str(file))))


def test_restore_calls_the_undoing_off(shell: str, file: Path) -> None:
    """Once put back, nothing is left that would change the file later."""
    done = apply(shell, replacement.replace(str(file), present(), NEW, confirm_seconds=1))
    assert done.returncode == 0
    assert apply(shell, replacement.restore(str(file), existed=True)).returncode == 0
    assert is_untouched(file)
