"""Backups, run for real: root follows no user to where they are, and no user looks into them."""

from __future__ import annotations

import hashlib

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import as_run, script
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.replace import replace
from gpu_node.facts.probe.file_bytes import FileContent
from tests.deploy.accounts import USER_ID
from tests.node_scripts import Ended, run_apart

OLD = FileContent(exists=True, text="old", problem="")
# A machine below /mnt: a home of `_apt`, a file of root, and a folder that only root may enter.
MACHINE = """mount -t tmpfs -o mode=755 tmpfs /mnt; cd /mnt; mkdir backups home etc secret
chmod 700 secret home; chown _apt home
echo -n old | tee etc/conf home/conf >secret/conf; chmod 600 home/conf; chown _apt home/conf"""
SECRET = '[ "$(ls -A /mnt/secret)$(cat /mnt/secret/conf)" = confold ]'
HOME = '[ "$(ls -A /mnt/home)$(cat /mnt/home/conf)" = confold ]'


def replaced(
    path: str, user: str, shell: str, before: str, *after: str, confirm_seconds: int = 0
) -> Ended:
    """Replace a file on that machine, after more was done to it."""
    command = replace(path, OLD, "new", user=user, confirm_seconds=confirm_seconds)
    return run_apart(command, shell, f"{MACHINE}\n{before}", after)


@pytest.fixture(autouse=True)
def backups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of this run's backups, on that machine."""
    monkeypatch.setattr(replacement, "backups", lambda: "/mnt/backups/gpu-node/RUN")


FILES = {"root's": ("/mnt/etc/conf", ""), "a user's": ("/mnt/home/conf", "_apt")}
# What a user, or an administrator before, has made of the folder; and what is wrong with it.
NO_FOLDERS = {
    "a link to a home": (
        "ln -s /mnt/home backups/gpu-node",
        f"/mnt/home belongs to uid {USER_ID}, who can put another in its place",
    ),
    "a link to a closed folder": (
        "ln -s /mnt/secret backups/gpu-node",
        "/mnt/backups/gpu-node is a link, and must be a folder: remove it",
    ),
    "the run's is a link": (
        "mkdir backups/gpu-node; ln -s /mnt/secret backups/gpu-node/RUN",
        "/mnt/backups/gpu-node/RUN is a link, and must be a folder: remove it",
    ),
    "a link further below": (
        "mkdir -p backups/gpu-node/RUN; ln -s /mnt/secret backups/gpu-node/RUN/mnt",
        "/mnt/backups/gpu-node/RUN/mnt is a link, and must be a folder: remove it",
    ),
    "a user's folder": (
        "mkdir -p backups/gpu-node/RUN; chown _apt backups/gpu-node/RUN",
        "/mnt/backups/gpu-node/RUN belongs to another user",
    ),
    "all may write above": ("chmod 777 backups", "other than root may write in /mnt/backups"),
}


@pytest.mark.parametrize(("path", "user"), FILES.values(), ids=FILES)
@pytest.mark.parametrize(("before", "why"), NO_FOLDERS.values(), ids=NO_FOLDERS)
def test_no_folder_of_roots(before: str, why: str, path: str, user: str, shell: str) -> None:
    """Nothing is written there, the file stays, and the reason is shown."""
    done = replaced(path, user, shell, before, SECRET, HOME, f'[ "$(cat {path})" = old ]')
    assert done.code == 1
    assert "no backup can be kept in /mnt/backups/gpu-node/RUN: " in done.err
    assert why in done.err and done.err.endswith("; nothing was changed\n")


@pytest.mark.parametrize(("path", "user"), FILES.values(), ids=FILES)
def test_folders_of_an_earlier_version(path: str, user: str, shell: str) -> None:
    """They were open to everyone, with copies of files of homes that are not: they are closed."""
    done = replaced(
        path,
        user,
        shell,
        "mkdir -p backups/gpu-node/20250101T000000Z-abcdef/mnt; chmod 755 backups/gpu-node",
        '[ "$(stat -c %U:%a backups/gpu-node)" = root:700 ]',
        f'[ "$(cat backups/gpu-node/RUN{path})" = old ]',
        '! su -s /bin/sh _apt -c "ls /mnt/backups/gpu-node" >/dev/null 2>&1',
    )
    assert (done.code, done.err) == (0, "")


def test_a_user_decides_nothing_about_the_place(shell: str) -> None:
    """Where the user's path leads to is the user's word: the backup goes by the path we know."""
    done = replaced(
        "/mnt/home/conf",
        "_apt",
        shell,
        "mv home/conf home/real; ln -s real home/conf",
        '[ "$(cat home/real)" = new ] && [ -L home/conf ]',
        '[ "$(cat backups/gpu-node/RUN/mnt/home/conf)" = old ]',
        '[ "$(find backups -type f ! -name manifest | wc -l)" = 1 ]',
        'grep -q " 600 [0-9]*:0 _apt /mnt/home/conf$" backups/gpu-node/RUN/manifest',
    )
    assert (done.code, done.err) == (0, "")


# What a user puts in the place of a file.
NO_FILES = {
    "a fifo": ("rm home/conf; mkfifo home/conf", "cannot be read, or changed"),
    "a device": ("rm home/conf; mknod home/conf c 1 5", "cannot be read, or changed"),
    "a link to what only root may read": (
        "rm home/conf; ln -s /mnt/secret/conf home/conf",
        "cannot be read, or changed",
    ),
    "a sparse file of 50 GB": (
        "truncate -s 50G home/conf",
        "cannot be read, or changed",
    ),
}


@pytest.mark.parametrize(("before", "why"), NO_FILES.values(), ids=NO_FILES)
def test_no_ordinary_file(before: str, why: str, shell: str) -> None:
    """It is neither waited for nor copied, and what root may read is not shown to the user."""
    done = replaced(
        "/mnt/home/conf",
        "_apt",
        shell,
        before,
        '[ -z "$(find backups -type f)" ]',
        SECRET,
        '[ "$(ls -A home)" = conf ]',
    )
    assert done.code == 1 and why in done.err


def inner(shell: str, before: str, old: bytes, *after: str) -> Ended:
    """Run write.sh itself as `_apt`, a user who has passed the checks before it."""
    sums = [hashlib.sha256(each).hexdigest() for each in (old, b"new")]
    given = {"before": sums[0], "after": sums[1], "mode": "644", "owner": "user", "check": ""}
    given |= {"file": "/mnt/home/conf", "unchanged": "nothing was changed"}
    command = script(
        "as_user",
        user="_apt",
        as_user='as_user() { su -s /bin/sh "$user" -c "$1"; }',
        run=f"printf new | (\n{as_run('write', **given)}\n)",
    )
    return run_apart(command, shell, f"{MACHINE}\n{before}", after)


def test_a_hard_link_to_anothers_file(shell: str) -> None:
    """It is another user's file, too: what we do with one would be done with the other."""
    before = "rm home/conf; echo -n old >home/theirs; ln home/theirs home/conf"
    done = inner(shell, before, b"old", '[ "$(cat home/theirs home/conf)" = oldold ]')
    assert (done.code, "is another user's file, too (a hard link); nothing" in done.err) == (
        1,
        True,
    )
    own = inner(shell, f"{before}; chown _apt home/conf", b"old", '[ "$(cat home/conf)" = new ]')
    assert (own.code, own.err) == (0, "")


def test_a_file_that_is_too_large(shell: str) -> None:
    """No start file or list of keys has 16 MiB."""
    before = "truncate -s 17M home/conf; chown _apt home/conf"
    done = inner(shell, before, bytes(17 << 20), '[ "$(stat -c %s home/conf)" = 17825792 ]')
    assert (done.code, "is larger than 16 MiB; nothing was changed" in done.err) == (1, True)


def test_the_lock_is_not_the_users(shell: str) -> None:
    """A process that the user starts holds no lock: the next run would wait for it."""
    profile = "sh() { :; }; ls -l /proc/self/fd >/mnt/tmp/fds"
    command = replace("/mnt/home/conf", OLD, "new", check=profile, user="_apt")
    before = f"{MACHINE}; mkdir -m 1777 tmp"
    done = run_apart(command, shell, before, ["! grep -q gpu-node.lock /mnt/tmp/fds"])
    assert (done.code, done.err) == (0, "")


RACER = """cat >race <<'END'
while [ ! -e /mnt/stop ]; do
  mv /mnt/home/d /mnt/home/e; ln -s /mnt/secret /mnt/home/d
  mv /mnt/home/e/conf /mnt/home/e/was; ln -s /mnt/secret/conf /mnt/home/e/conf
  rm -f /mnt/home/e/conf; mv /mnt/home/e/was /mnt/home/e/conf
  rm -f /mnt/home/d; mv /mnt/home/e /mnt/home/d
done
END
mkdir home/d; echo -n old >home/d/conf; chown -R _apt home
su -s /bin/sh _apt -c "sh /mnt/race" >/dev/null 2>&1 &"""


def test_a_user_who_renames_folders_meanwhile(shell: str) -> None:
    """Whatever is done or refused: no file of root's is changed, moved, or copied to the user."""
    one = replace("/mnt/home/d/conf", OLD, "new", user="_apt").get_raw_value()
    loop = f"n=0; while [ $n -lt 6 ]; do n=$((n + 1)); (\n{one}\n) <<END\nnew\nEND\ndone"
    text = f"{loop}; touch /mnt/stop"
    done = run_apart(
        StringCommand(text),
        shell,
        f"{MACHINE}\n{RACER}",
        [
            SECRET,
            '[ "$(stat -c %U:%a /mnt/secret /mnt/secret/conf | tr "\\n" " ")" = '
            '"root:700 root:644 " ]',
            '[ -z "$(find /mnt/backups -not -user root)" ]',
            "wait",
        ],
    )
    assert "NOT SO" not in done.err, done
