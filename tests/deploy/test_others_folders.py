"""Work in folders that users may change, run for real: root gives away nothing else."""

from __future__ import annotations

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import as_user, script
from tests import node_scripts
from tests.deploy.accounts import USER_ID
from tests.node_scripts import Ended, run_apart
from tests.shells import SH

# A home of `_apt`, a folder of root, one that only root may enter, and one for a group.
MACHINE = """mount -t tmpfs -o mode=755 tmpfs /mnt; cd /mnt; mkdir home data secret team
echo -n key >secret/conf; chmod 700 secret; chown _apt home; chgrp games team; chmod 2775 team"""
SECRET = '[ "$(stat -c %U:%a secret secret/conf | tr "\\n" " ")" = "root:700 root:644 " ]'
# What is made before, the path and the owner that are wanted, and what is then so.
MADE = {
    "in root's": ("", "/mnt/data/a/b", "_apt", "_apt:750", "/mnt/data/a/b"),
    "a user's in root's": (
        "mkdir data/a; chown _apt data/a",
        "/mnt/data/a",
        "root",
        "root:750",
        "",
    ),
    "by root's link": (
        "ln -s ../team data/l; chmod 755 team",
        "/mnt/data/l",
        "",
        "root:750",
        "/mnt/team",
    ),
    "in a home": ("", "/mnt/home/a/b", "", "_apt:750", ""),
    "in a home, for its user": ("", "/mnt/home/a", str(USER_ID), "_apt:750", ""),
    "in a home, by a link": (
        "mkdir home/x; ln -s x home/l; chown -R _apt home",
        "/mnt/home/l/a",
        "",
        "_apt:750",
        "/mnt/home/x/a",
    ),
}
REFUSED = {
    "a user's link to root's": (
        "ln -s ../secret home/l",
        "/mnt/home/l",
        "_apt",
        "cannot be made so as _apt, whose folder it is in; make it manually",
    ),
    "below a user's link": (
        "ln -s /mnt/secret home/l",
        "/mnt/home/l/a",
        "",
        "cannot be made so as",
    ),
    "root's link into a home": (
        "ln -s ../home/l data/l; ln -s ../secret home/l",
        "/mnt/data/l",
        "_apt",
        "cannot be made so as _apt",
    ),
    "in a home, for another": (
        "",
        "/mnt/home/a",
        "games",
        "is in a folder of _apt, who could lead root elsewhere: only _apt can be its owner",
    ),
    "in a folder of a group": (
        "chgrp 4321 team",
        "/mnt/team/a",
        "_apt",
        "others than root may write in /mnt/team, and could lead root elsewhere; nothing was",
    ),
    "of no known account": (
        "chown 54321 home",
        "/mnt/home/a",
        "",
        "uid 54321 can change a folder above it, and is not an account here; nothing was changed",
    ),
}


def directory(path: str, owner: str, shell: str, before: str, *after: str) -> Ended:
    """Make a folder on that machine, after more was done to it."""
    command = script("directory", path=path, mode="750", owner=owner, group="")
    return run_apart(command, shell, f"{MACHINE}\n{before}", [*after, SECRET])


@pytest.mark.parametrize(("before", "path", "owner", "found", "at"), MADE.values(), ids=MADE)
def test_a_directory(before: str, path: str, owner: str, found: str, at: str, shell: str) -> None:
    """It is made, by its user where a user can change the way to it."""
    reported = f'[ "$(stat -c %U:%a {at or path})" = {found} ] && [ ! -L {at or path} ]'
    done = directory(path, owner, shell, before, reported)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(("before", "path", "owner", "why"), REFUSED.values(), ids=REFUSED)
def test_no_directory(before: str, path: str, owner: str, why: str, shell: str) -> None:
    """The reason is shown, and nothing of root's is given to the user."""
    done = directory(path, owner, shell, before, "[ ! -e /mnt/secret/a ] && [ ! -e /mnt/team/a ]")
    assert done.code == 1 and why in done.err, done


# What another user may have made in a shared folder, the path and the owner that are wanted, and
# what is then so.
TMP = "mkdir -m 1777 tmp"
MADE_THERE = {
    "nothing": ("", "/mnt/tmp/a", "_apt", "_apt:750"),
    "not the way to it": ("", "/mnt/tmp/a/b/c", "_apt", "_apt:750"),
    "root's": ("mkdir tmp/a", "/mnt/tmp/a", "_apt", "_apt:750"),
    "below root's": ("mkdir tmp/a", "/mnt/tmp/a/b", "", "root:750"),
    "its owner's": ("mkdir tmp/a; chown _apt tmp/a", "/mnt/tmp/a", "_apt", "_apt:750"),
}
KEPT_THERE = {
    "another's folder": (
        "mkdir tmp/a; chown _apt tmp/a",
        "/mnt/tmp/a",
        "root",
        "/mnt/tmp/a belongs to _apt, and others than root may write in /mnt/tmp; nothing",
    ),
    "another's link": (
        "ln -s ../secret tmp/a; chown -h _apt tmp/a",
        "/mnt/tmp/a",
        "_apt",
        "/mnt/tmp/a is not a folder, or is a link, and others",
    ),
    "another's link on the way": (
        "ln -s ../secret tmp/a; chown -h _apt tmp/a",
        "/mnt/tmp/a/b",
        "_apt",
        "cannot be made so as _apt",
    ),
}


@pytest.mark.parametrize(("before", "path", "owner", "found"), MADE_THERE.values(), ids=MADE_THERE)
def test_a_directory_in_a_shared_folder(
    before: str, path: str, owner: str, found: str, shell: str
) -> None:
    reported = f'[ "$(stat -c %U:%a {path})" = {found} ]'
    done = directory(path, owner, shell, f"{TMP}; {before}", reported)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(("before", "path", "owner", "why"), KEPT_THERE.values(), ids=KEPT_THERE)
def test_no_directory_in_a_shared_folder(
    before: str, path: str, owner: str, why: str, shell: str
) -> None:
    """Root takes nothing that another user has put there, and follows no link of theirs."""
    done = directory(path, owner, shell, f"{TMP}; {before}", "[ ! -e secret/b ]")
    assert done.code == 1 and why in done.err, done


# A user who wins the race: once root has made or seen the folder, it is a link.
SWAPPING = """mkdir -m 1777 tmp; mkdir fake tmp/a; ln -s ../secret tmp/link; chown -h _apt tmp/*
printf '#!/bin/sh\\nPATH=%s\\nmkdir "$@"; code=$?; cd /mnt\\nmv tmp/a tmp/b; mv -T tmp/link tmp/a
exit $code\\n' "$PATH" >fake/mkdir; chmod 755 fake/mkdir"""


# busybox has mkdir and ls in itself: no other one can stand in for them.
BY_PATH = pytest.mark.parametrize("shell", [each for each in SH if each != "busybox"])


@BY_PATH
def test_a_folder_that_is_swapped(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was a folder of a user's when it was looked for is a link when root works in it."""
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", "/mnt/fake:")
    done = directory("/mnt/tmp/a", "root", shell, SWAPPING, "[ -L tmp/a ]")
    assert done.code == 1 and "is not a folder, or is a link" in done.err, done


def room(path: str, shell: str, before: str, *after: str) -> Ended:
    """Make room for an environment of root's beside a place."""
    folder, _, name = path.rpartition("/")
    given = {"path": path, "partial": f"{folder}/.{name}.gpu-node-partial"}
    command = script("environment_room", **given, machine="", trains="root")
    return run_apart(command, shell, f"{MACHINE}\n{before}", [*after, SECRET])


def test_room_in_a_shared_folder(shell: str) -> None:
    """Root alone gets into what is made; what another user has put there is not entered."""
    made = '[ "$(stat -c %U:%a tmp/.e.gpu-node-partial)" = root:700 ]'
    done = room("/mnt/tmp/e", shell, TMP, made)
    assert (done.code, done.err) == (0, "")
    for what in ("ln -s ../secret", "mkdir"):
        planted = f"{TMP}; {what} tmp/.e.gpu-node-partial; chown -h _apt tmp/.e.gpu-node-partial"
        done = room("/mnt/tmp/e", shell, planted, "[ -e secret/conf ]")
        assert done.code == 1 and done.err, done


@BY_PATH
def test_room_that_is_swapped(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root neither closes nor empties what a link leads to."""
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", "/mnt/fake:")
    name = "tmp/.e.gpu-node-partial"
    before = SWAPPING.replace("tmp/a", name).replace("../secret", "../team")
    done = room("/mnt/tmp/e", shell, f"touch team/file\n{before}", "[ -e team/file ]")
    assert done.code == 1 and "is not a folder, or is a link" in done.err, done


def workspace(owner: str, shell: str, before: str, *after: str) -> Ended:
    """Make room for a workspace in a shared folder."""
    command = script("workspace", path="/mnt/tmp/ws", owner=owner, allow="yes", backup="")
    return run_apart(command, shell, f"{MACHINE}\n{TMP}\n{before}", [*after, SECRET])


@pytest.mark.parametrize("owner", ["games", ""])
def test_a_workspace_that_another_has_made(owner: str, shell: str) -> None:
    """Who made it decides what is trained there."""
    made = "mkdir -m 777 tmp/ws; touch tmp/ws/train.py; chown -R _apt tmp/ws"
    done = workspace(owner, shell, made, '[ "$(stat -c %U tmp/ws)" = _apt ]')
    assert done.code == 1, done
    assert f"belongs to _apt, and is to be {owner or 'root'}'s; nothing was copied" in done.err


@BY_PATH
def test_a_workspace_that_another_makes_just_now(
    shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for it and the making of it."""
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", "/mnt/fake:")
    before = """mkdir fake
printf '#!/bin/sh\\nPATH=%s\\n[ "$3" != /mnt/tmp/ws ] ||
  { mkdir /mnt/tmp/ws && chown _apt /mnt/tmp/ws; } 2>/dev/null
exec ls "$@"\\n' "$PATH" >fake/ls; chmod 755 fake/ls"""
    done = workspace("games", shell, before, '[ "$(stat -c %U tmp/ws)" = _apt ]')
    assert done.code == 1 and "belongs to _apt, and is to be games's" in done.err, done


def test_a_workspace_in_a_shared_folder(shell: str) -> None:
    """It is made for who trains; one that is root's or theirs already is taken."""
    reported = '[ "$(stat -c %U:%a tmp/ws)" = games:755 ]'
    for before in ("", "mkdir tmp/ws; chown games tmp/ws"):
        done = workspace("games", shell, before, reported)
        assert (done.code, done.err) == (0, "")
    assert workspace("", shell, "mkdir tmp/ws").code == 0


SSH = """mkdir home/.ssh; chmod 777 home/.ssh; echo -n mine >home/.ssh/authorized_keys
chmod 666 home/.ssh/authorized_keys"""
UID = str(USER_ID)
# The node's own accounts have the home.
ACCOUNT = """sed 's,^\\(_apt:.*:\\)[^:]*:\\([^:]*\\)$,\\1/mnt/home:\\2,' /etc/passwd >passwd
mount --bind passwd /etc/passwd"""


def modes(shell: str, before: str, *after: str) -> Ended:
    """Close the SSH files of `_apt`, as the operation does where another user owns some."""
    words = {"uid": UID, "home": "/mnt/home"}
    first = script("ssh_folder", user="_apt").get_raw_value()
    second = as_user("_apt", "ssh_modes", "user=_apt\n", **words).get_raw_value()
    both = StringCommand(f"(\n{first}\n) && (\n{second}\n)")
    return run_apart(both, shell, f"{MACHINE}\n{ACCOUNT}\n{SSH}\n{before}", [*after, SECRET])


GIVEN = {
    "all of another": ("chown -R 1234 home/.ssh", "_apt:755 _apt:600 "),
    "root's": ("chmod 755 home/.ssh; chmod 644 home/.ssh/*", "root:755 root:644 "),
    "the folder alone": (
        "chown 1234 home/.ssh; chown _apt home/.ssh/*",
        "_apt:755 _apt:644 ",
    ),
    "the file alone": ("chown _apt home/.ssh; chown 1234 home/.ssh/*", "_apt:755 _apt:600 "),
}


@pytest.mark.parametrize(("before", "found"), GIVEN.values(), ids=GIVEN)
def test_what_is_given(before: str, found: str, shell: str) -> None:
    """The folder by root, a file by a copy that the user makes; their bytes stay."""
    reported = f'[ "$(stat -c %U:%a home/.ssh home/.ssh/* | tr "\\n" " ")" = "{found}" ]'
    done = modes(shell, before, reported, '[ "$(cat home/.ssh/*)" = mine ]')
    assert (done.code, done.err) == (0, "")


NOT_GIVEN = {
    "a file that the user cannot read": (
        "mv secret/conf home/.ssh/id_ed25519; chmod 600 home/.ssh/id_ed25519; cp -p home/.ssh/id* "
        "secret/conf; chmod 644 secret/conf; chown _apt home/.ssh",
        "belongs to uid 0, and _apt cannot copy it: give it to _apt manually (chown -h _apt ",
    ),
    "a link to another folder": (
        "mv home/.ssh home/s; chown _apt home/s; ln -s ../secret home/.ssh",
        "",
    ),
    "a home of another": (
        "chown 1234 home",
        "/mnt/home belongs to uid 1234: give it to _apt manually",
    ),
}


@pytest.mark.parametrize(("before", "why"), NOT_GIVEN.values(), ids=NOT_GIVEN)
def test_what_is_not_given(before: str, why: str, shell: str) -> None:
    """No run gives to a user what the user has put in the place of a file."""
    done = modes(shell, before)
    assert (done.code == 1) == bool(why) and why in done.err, done


RACER = """cat >race <<'END'
while [ ! -e /mnt/stop ]; do
  mv /mnt/home/.ssh /mnt/home/was; ln -s /mnt/secret /mnt/home/.ssh
  rm -f /mnt/home/.ssh; mv /mnt/home/was /mnt/home/.ssh
  mkdir /mnt/home/a; rmdir /mnt/home/a; ln -s /mnt/secret /mnt/home/a; rm -f /mnt/home/a
done
END
chown 1234 home/.ssh; mv home/.ssh/authorized_keys secret/authorized_keys; chmod 666 secret/a*
su -s /bin/sh _apt -c "sh /mnt/race" >/dev/null 2>&1 &"""


@pytest.mark.parametrize(
    "accounts", ["grep -v ^_apt: passwd >none; mount --bind none /etc/passwd", "umount /etc/passwd"]
)
def test_an_account_without_a_home(shell: str, accounts: str) -> None:
    """Nothing is changed where the node itself has no such account, or another home."""
    there = '[ "$(stat -c %U:%a home/.ssh)" = root:777 ]'
    text = script("ssh_folder", user="_apt").get_raw_value()
    before = f"{MACHINE}\n{ACCOUNT}\n{SSH}\n{accounts}"
    done = run_apart(StringCommand(f"(\n{text}\n) || :"), shell, before, [SECRET, there])
    assert "NOT SO" not in done.err, done


def test_a_user_who_renames_folders_meanwhile(shell: str) -> None:
    """Whatever is done or refused: nothing of root's gets another owner or mode."""
    one = script("ssh_folder", user="_apt").get_raw_value()
    two = script("directory", path="/mnt/home/a", mode="777", owner="_apt", group="")
    text = f"for n in 1 2 3 4 5 6; do (\n{one}\n); (\n{two.get_raw_value()}\n); done; touch stop"
    open_file = '[ "$(stat -c %U:%a secret/authorized_keys)" = root:666 ]'
    done = run_apart(
        StringCommand(text),
        shell,
        f"{MACHINE}\n{ACCOUNT}\n{SSH}\n{RACER}",
        [SECRET, open_file, "wait"],
    )
    assert "NOT SO" not in done.err, done
