"""replace.sh, run for real: the file is replaced whole, or it is as it was."""

from __future__ import annotations

import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.replace import confirm, replace, restore, sum_of
from gpu_node.facts.probe.file_bytes import FileContent
from tests.node_scripts import run, run_apart, tree, until

ABSENT = FileContent(exists=False, text="", problem="")
TEXTS = {
    "plain": "one\ntwo\n",
    "empty": "",
    "no final newline": "one",
    "only newlines": "\n\n\n",
    "every byte but NUL": bytes(range(1, 256)).decode("latin-1"),
    "printf's own signs": "%s %d %% 100% \\n \\0101 \\\\ \\c %(x)T\n",
    "quotes": "'a' \"b\" `id` $(id) $HOME ; id\n",
    "blanks around": "  \t one \t \n",
    "digits after a coded byte": "\xe9123\\0777\n",
    "leading dash": "-n one\n",
    "dashes alone": "--",
    "long": "x" * 200_000 + "\n",
}


def content(text: str) -> FileContent:
    """What the fact says of a file with that text."""
    return FileContent(exists=True, text=text, problem="")


def recorded(file: Path) -> str:
    """Return a path as a record has it."""
    return str(file).replace(" ", "\\040")


@dataclass(frozen=True)
class Place:
    """A file `conf` alone in a folder of its own: what else appears there was left behind."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "conf"

    def holds(self) -> dict[str, bytes]:
        return tree(self.folder)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with the file `conf` in it, which says `old`."""
    folder = tmp_path / "etc dir"
    folder.mkdir()
    (folder / "conf").write_bytes(b"old")
    return Place(folder)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_content_arrives_byte_for_byte(place: Place, backups: Path, shell: str, text: str) -> None:
    """Whatever the text is, these bytes are the file, nothing else is left, the old one is kept."""
    done = run(replace(str(place.file), content("old"), text), shell)
    assert (done.code, done.err) == (0, "")
    assert place.holds() == {"conf": text.encode("latin-1")}
    assert Path(f"{backups}{place.file}").read_bytes() == b"old"


@pytest.mark.parametrize("text", ["", "new\n"])
def test_a_file_that_was_not_there(place: Place, backups: Path, shell: str, text: str) -> None:
    """A new file is readable by all, in a folder made for it; the manifest has that it is ours."""
    file = place.folder / "new.d" / "conf"
    done = run(replace(str(file), ABSENT, text), shell)
    assert (done.code, done.err) == (0, "")
    assert file.read_bytes() == text.encode()
    assert file.stat().st_mode & 0o7777 == 0o644
    line = f"absent {sum_of(text)} - - root {recorded(file)}\n"
    assert tree(backups) == {"manifest": line.encode()}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o664])
def test_the_mode_stays(place: Place, backups: Path, shell: str, mode: int) -> None:
    """A file that others may not read stays so, and so does its backup."""
    place.file.chmod(mode)
    assert run(replace(str(place.file), content("old"), "new"), shell).code == 0
    saved = Path(f"{backups}{place.file}")
    assert [path.stat().st_mode & 0o7777 for path in (place.file, saved)] == [mode, mode]


def test_the_owner_stays(place: Place, backups: Path, shell: str) -> None:
    """A file of another user stays that user's."""
    done = run_apart(
        replace(str(place.file), content("old"), "new"),
        shell,
        f'mount -t tmpfs tmpfs "{backups.parents[1]}"; mkdir "{place.folder}"; '
        f'cd "{place.folder}"; echo -n old >conf; chmod 640 conf; chown 1234:4321 conf',
        ['[ "$(stat -c %u:%g:%a conf)" = 1234:4321:640 ]', '[ "$(cat conf)" = new ]'],
    )
    assert (done.code, done.err) == (0, "")


# The home of `_apt`, below folders that every user may enter; a test's folder is not.
HOME = """mount -t tmpfs -o mode=755 tmpfs /mnt; mkdir /mnt/home /mnt/root; cd /mnt/home
echo -n old | tee conf >/mnt/root/conf; chmod 600 conf; chown -R _apt /mnt/home"""


def as_user_of_home(
    path: str, monkeypatch: pytest.MonkeyPatch, confirm_seconds: int = 0
) -> StringCommand:
    """The replacement of a file in that home."""
    monkeypatch.setattr(replacement, "backups", lambda: "/mnt/backups/RUN")
    return replace(path, content("old"), "new", confirm_seconds=confirm_seconds, user="_apt")


def test_a_users_file_is_written_as_that_user(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays as it was but for its text, and the backup is where only root may look."""
    done = run_apart(
        as_user_of_home("/mnt/home/conf", monkeypatch),
        shell,
        HOME,
        [
            '[ "$(stat -c %U:%a conf)" = _apt:600 ] && [ "$(cat conf)" = new ]',
            '[ "$(ls -A /mnt/home)" = conf ]',
            '[ "$(cat /mnt/backups/RUN/mnt/home/conf)" = old ]',
            '[ "$(stat -c %U:%a /mnt/backups/RUN/mnt/home/conf)" = root:600 ]',
            '[ "$(stat -c %U:%a /mnt/backups/RUN/mnt/home)" = root:700 ]',
            '[ "$(stat -c %U:%a /mnt/backups)" = root:700 ]',
        ],
    )
    assert (done.code, done.err) == (0, "")


def test_a_users_file_is_put_back_as_that_user(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From what root has read of it before; the user needs no look at the backup."""
    put_back = restore("/mnt/home/conf", "_apt").get_raw_value()
    done = run_apart(
        as_user_of_home("/mnt/home/conf", monkeypatch, confirm_seconds=60),
        shell,
        HOME,
        [
            '[ "$(cat conf)" = new ] && [ "$(ls -A)" = conf ]',
            f"sh -c {shlex.quote(put_back)}",
            '[ "$(stat -c %U:%a conf)" = _apt:600 ] && [ "$(cat conf)" = old ]',
            '[ "$(ls -A)" = conf ]',
        ],
    )
    assert (done.code, done.err) == (0, "")


def test_a_users_folder_that_is_roots_by_a_link(
    shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """~/.ssh may lead to /root/.ssh: what the user may not write there is not written."""
    done = run_apart(
        as_user_of_home("/mnt/home/link/conf", monkeypatch),
        shell,
        f"{HOME}; ln -s /mnt/root link",
        ['[ "$(cat /mnt/root/conf)" = old ]', '[ "$(ls -A /mnt/root)" = conf ]'],
    )
    assert done.code == 1
    assert "cannot write beside it; nothing was changed" in done.err


def test_the_backup_is_the_first_one(place: Place, backups: Path, shell: str) -> None:
    """Two replacements in one run keep what the user had, not our own first text.

    The manifest has both: BEFORE AFTER MODE UID:GID USER PATH, by which each can be undone.
    """
    place.file.chmod(0o640)
    assert run(replace(str(place.file), content("old"), "first"), shell).code == 0
    assert run(replace(str(place.file), content("first"), "second"), shell).code == 0
    assert place.holds() == {"conf": b"second"}
    assert Path(f"{backups}{place.file}").read_bytes() == b"old"
    rest = f"640 {os.getuid()}:{os.getgid()} root {recorded(place.file)}"
    assert (backups / "manifest").read_text().splitlines() == [
        f"{sum_of('old')} {sum_of('first')} {rest}",
        f"{sum_of('first')} {sum_of('second')} {rest}",
    ]


def test_a_symlink_stays_one(place: Place, backups: Path, shell: str) -> None:
    """Where the path is a link, the file it leads to is replaced, and the link stays."""
    link = place.folder.parent / "link"
    link.symlink_to("etc dir/conf")
    done = run(replace(str(link), content("old"), "new"), shell)
    assert (done.code, os.readlink(link)) == (0, "etc dir/conf")
    assert done.out == (
        f"gpu-node: {link} leads to {place.file}: that file was replaced, and the link stays\n"
    )
    assert place.holds() == {"conf": b"new"}


def test_a_link_to_another_owners_file_is_refused(place: Place, backups: Path, shell: str) -> None:
    """A user's ~/.bashrc may lead to a file of root's: as root, we would write it for them."""
    folder = place.folder
    done = run_apart(
        replace(str(folder / "conf"), content("old"), "new"),
        shell,
        f'mount -t tmpfs tmpfs "{backups.parents[1]}"; mkdir "{folder}"; cd "{folder}/.."; '
        f'echo -n old >victim; chown 1234 "{folder}"; ln -s "$PWD/victim" "{folder}/conf"',
        ['[ "$(cat victim)" = old ]', f'[ "$(ls -A "{folder}")" = conf ]'],
    )
    assert done.code == 1
    assert "belongs to uid 1234, who can put another in its place; nothing was changed" in done.err


def test_what_lies_beside_it_is_not_written_into(place: Place, backups: Path, shell: str) -> None:
    """The name of the new file can be foreseen: a link there would lead us anywhere."""
    victim = place.folder.parent / "victim"
    victim.write_text("theirs")
    (place.folder / ".conf.gpu-node").symlink_to(victim)
    assert run(replace(str(place.file), content("old"), "new"), shell).code == 0
    assert place.holds() == {"conf": b"new"}
    assert victim.read_text() == "theirs"


@pytest.mark.parametrize("now", [b"OLD", b"old\n", b"", None], ids=repr)
def test_a_file_changed_meanwhile(
    place: Place, backups: Path, shell: str, now: bytes | None
) -> None:
    """A change by another process after the fact was read is kept: nothing is done."""
    place.file.unlink() if now is None else place.file.write_bytes(now)
    before = place.holds()
    done = run(replace(str(place.file), content("old"), "new"), shell)
    assert done.code == 1
    assert str(place.file) in done.err
    assert place.holds() == before


def test_a_file_that_appeared_meanwhile(place: Place, backups: Path, shell: str) -> None:
    """The same for a file that was not there when the fact was read."""
    done = run(replace(str(place.file), ABSENT, "new"), shell)
    assert (done.code, place.holds()) == (1, {"conf": b"old"})
    assert "appeared while we worked; nothing was changed" in done.err


def test_a_check_that_refuses(place: Place, backups: Path, shell: str) -> None:
    """The check gets the new and the old file; if it fails, its output is shown, the file stays."""
    check = 'echo "new $(cat "$1"), old $(cat "$2")"; false'
    done = run(replace(str(place.file), content("old"), "fresh", check=check), shell)
    assert (done.code, place.holds()) == (1, {"conf": b"old"})
    assert "the check refused it: new fresh, old old" in done.err


def test_a_check_that_agrees(place: Place, backups: Path, shell: str) -> None:
    """A check that ends well says nothing and hinders nothing."""
    done = run(replace(str(place.file), content("old"), "new", check="echo fine"), shell)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert place.holds() == {"conf": b"new"}


def test_no_content_arrives(place: Place, backups: Path, shell: str) -> None:
    """A connection that broke before the content came does not empty the file."""
    command = replace(str(place.file), content("old"), "new")
    command.connector_arguments["_stdin"] = []
    done = run(command, shell)
    assert (done.code, place.holds()) == (1, {"conf": b"old"})
    assert "no content arrived; nothing was changed" in done.err


def test_half_the_content_arrives(place: Place, backups: Path, shell: str) -> None:
    """A connection that broke within the content does not leave half a file."""
    command = replace(str(place.file), content("old"), "a whole new text")
    command.connector_arguments["_stdin"] = ["a whole"]
    done = run(command, shell)
    assert (done.code, place.holds()) == (1, {"conf": b"old"})
    assert "nothing was changed" in done.err


FULL = {"empty disk": "", "one block free": "; truncate -s -4096 fill"}


@pytest.mark.parametrize("room", FULL.values(), ids=FULL)
def test_a_full_disk(place: Place, backups: Path, shell: str, room: str) -> None:
    """Without room for the new file only the old one stays, unchanged; the error says why."""
    done = run_apart(
        replace(str(place.file), content("old"), "new text\n" * 2000),
        shell,
        f'mount -t tmpfs -o size=64k tmpfs "{place.folder}"; cd "{place.folder}"; '
        f"echo -n old >conf; (dd if=/dev/zero of=fill bs=4k 2>/dev/null || :){room}",
        ['[ "$(cat conf)" = old ]', '[ "$(ls -A | tr \'\\n\' " ")" = "conf fill " ]'],
    )
    assert done.code == 1
    assert "nothing was changed" in done.err


@pytest.mark.parametrize("existed", [True, False])
def test_restore(place: Place, backups: Path, shell: str, existed: bool) -> None:
    """What the run wrote is undone: the old bytes come back, or the file goes."""
    file = place.file if existed else place.folder / "new"
    before = place.holds()
    old = content("old") if existed else ABSENT
    assert run(replace(str(file), old, "ours", confirm_seconds=60), shell).code == 0
    done = run(restore(str(file)), shell)
    assert (done.code, done.err) == (0, "")
    assert place.holds() == before
    again = run(restore(str(file)), shell)
    assert (again.code, "was undone already" in again.err, place.holds()) == (1, True, before)


def test_restore_without_a_change(place: Place, backups: Path, shell: str) -> None:
    """Where nothing waits to be confirmed, restore fails and the file stays."""
    done = run(restore(str(place.file)), shell)
    assert (done.code, "was undone already" in done.err) == (1, True)
    assert place.holds() == {"conf": b"old"}


@pytest.mark.parametrize("existed", [True, False])
def test_restore_after_another_users_change(
    place: Place, backups: Path, shell: str, existed: bool
) -> None:
    """A user's later change is not undone with ours: it stays, and that is reported."""
    file = place.file if existed else place.folder / "new"
    old = content("old") if existed else ABSENT
    assert run(replace(str(file), old, "ours", confirm_seconds=60), shell).code == 0
    file.write_bytes(b"ours\nand a user's\n")
    done = run(restore(str(file)), shell)
    assert (done.code, "changed by another program" in done.err) == (1, True)
    assert file.read_bytes() == b"ours\nand a user's\n"
    assert not list(place.folder.glob(".*"))


def test_a_change_on_top_of_an_unconfirmed_one(place: Place, backups: Path, shell: str) -> None:
    """The second is refused: the first one's undoing would take it away."""
    assert run(replace(str(place.file), content("old"), "a", confirm_seconds=60), shell).code == 0
    done = run(replace(str(place.file), content("a"), "b", confirm_seconds=60), shell)
    assert (done.code, place.file.read_bytes()) == (1, b"a")
    assert "an earlier change is not yet confirmed; nothing was changed" in done.err
    assert run(confirm(str(place.file)), shell).code == 0
    assert run(replace(str(place.file), content("a"), "b", confirm_seconds=60), shell).code == 0
    assert run(restore(str(place.file)), shell).code == 0
    assert place.holds() == {"conf": b"a"}  # what was confirmed is not undone


def test_two_runs_at_once(place: Place, backups: Path, shell: str, lock: Path) -> None:
    """The second waits for the first to end, and then sees what that one wrote."""
    slow = f'echo started >"{backups.parent}/started"; sleep 1'
    backups.parent.mkdir(exist_ok=True, parents=True)
    with ThreadPoolExecutor() as beside:
        first = beside.submit(run, replace(str(place.file), content("old"), "a", slow), shell)
        assert until((backups.parent / "started").exists)
        second = run(replace(str(place.file), content("a"), "b"), shell)
        assert (first.result().code, first.result().err) == (0, "")
    assert (second.code, second.err) == (0, "")
    assert place.holds() == {"conf": b"b"}


def test_a_rename_that_fails(place: Place, backups: Path, shell: str) -> None:
    """Nothing was changed, so no timer is left that would undo another user's change later."""
    done = run_apart(
        replace(str(place.file), content("old"), "new", confirm_seconds=60),
        shell,
        f'cd "{place.folder}"; mount --bind conf conf',
        ['[ "$(ls -A)" = conf ]', '[ "$(cat conf)" = old ]'],
    )
    assert (done.code, "cannot be renamed into place: it is a mount" in done.err) == (1, True)
    assert "as docker and podman make of /etc/hosts; next: " in done.err, done.err


def test_no_room_for_the_backup(place: Place, backups: Path, shell: str) -> None:
    """Half a backup is none: it would be taken for the file that the user had."""
    backups.mkdir(parents=True)
    place.file.write_text("old" * 10_000)
    done = run_apart(
        replace(str(place.file), content("old" * 10_000), "new"),
        shell,
        f'mount -t tmpfs -o size=16k tmpfs "{backups}"',
        [f'[ -z "$(find "{backups}" -type f)" ]'],
    )
    why = f"no backup can be kept in {backups}: disk full?; nothing was changed"
    assert (done.code, why in done.err) == (1, True), done.err
