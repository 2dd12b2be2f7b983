"""Root's rsync goes through no folder that another user may change: really, with two accounts."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pyinfra.api import Host, State

from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.workspace.copy_side import receiver
from gpu_node.deploy.workspace.rsync import Removal, send
from gpu_node.inventories.connection.sudo import SUDO
from tests.deploy.accounts import AS_ROOT, OTHER, OWNER, Node, made
from tests.deploy.accounts import nodes as nodes
from tests.deploy.accounts import place as place
from tests.deploy.accounts import secret as secret
from tests.deploy.copies import PEER, RUN
from tests.node_scripts import Ended, environment, run
from tests.shells import SHELLS

pytestmark = AS_ROOT


def copied(
    source: Path, target: Path, excludes: tuple[str, ...] = (), by: str = "controller", **more: Any
) -> bool:
    """Copy a workspace to a node where pyinfra logs in as root."""
    printed = (by, str(source), str(target), list(excludes), "3.2.7", PEER.model_dump(), 10)
    return send(
        more.get("state") or State(),
        cast(Host, Node()),
        *printed,
        more.get("removal") or Removal(),
    )


def meanwhile(wire: Path, command: str) -> None:
    """Do something right before rsync's other end starts."""
    program = wire.parent / "bin" / "ssh"
    program.write_text(program.read_text().replace("shift\nexec", f"shift\n{command}\nexec"))


def test_a_folder_of_a_user_is_written_as_that_user(place: Path, wire: Path) -> None:
    """And what arrives is that user's."""
    source, target = made(place / "source", a="new"), made(place / "target", OWNER)
    assert copied(source, target)
    assert ((target / "a").read_text(), (target / "a").owner()) == ("new", OWNER)


def test_a_link_that_comes_in_a_folders_place(
    place: Path, wire: Path, secret: Path, caplog: Any
) -> None:
    """The user of the folder leads the copy elsewhere: root writes nothing there."""
    home = made(place / "home", OWNER)
    target, source = made(home / "target", OWNER), made(place / "source", a="new")
    meanwhile(wire, f"mv {target} {home}/old; ln -s {secret} {target}; chown -h {OWNER} {target}")
    assert not copied(source, target)
    assert [path.name for path in secret.iterdir()] == ["shadow"]
    assert "Permission denied" in caplog.text


def test_a_way_through_a_folder_of_another_user(place: Path, wire: Path, caplog: Any) -> None:
    """A folder of root's in a user's home is that user's to rename."""
    home = made(place / "home", OWNER)
    target, source = made(home / "target"), made(place / "source", a="new")
    assert not copied(source, target)
    assert list(target.iterdir()) == []
    assert f"give it to {OWNER} (chown -R)" in caplog.text and "gpu-node as" not in caplog.text


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda top: top.parent.chmod(0o777), "others than root may write in "),
        (lambda top: made(top / "logs", OWNER), "logs in it belongs to uid"),
        (lambda top: made(top / "logs").chmod(0o1777), "others may write in logs below it"),
        (lambda top: shutil.chown(made(top / "two words"), OWNER), "two words in it belongs to"),
        # What a shell's echo takes for the end of its output.
        (lambda top: made(top / "\\c", OWNER), "\\c in it belongs to uid"),
        (lambda top: made(top / "\\cx").chmod(0o1777), "others may write in \\cx below it"),
        (lambda top: made(top / "two\nlines", OWNER), "cannot determine whose all of it is"),
    ],
    ids=["way", "owner", "open", "blank", "escape", "open-escape", "newline"],
)
def test_what_others_may_change_is_refused(
    place: Path, wire: Path, caplog: Any, spoil: Callable[[Path], object], says: str
) -> None:
    """With what, why, and what next; nothing is copied."""
    above = made(place / "data")
    source, target = made(place / "source", a="new"), made(above / "target")
    spoil(target)
    assert not copied(source, target)
    assert says in caplog.text and "nothing was copied" in caplog.text
    assert "chown" in caplog.text or "chmod" in caplog.text
    assert not (target / "a").exists() and "check that this command works" not in caplog.text


@pytest.fixture
def sh(wire: Path, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of sh, with its programs."""
    program = wire.parent / "bin" / "sh"
    program.write_text(f'#!/bin/dash\nexec {shlex.join(SHELLS[shell])} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{environment(shell)['PATH']}")
    # A bash that rsync starts reads ~/.bashrc, which may wait for others on this machine.
    monkeypatch.setenv("HOME", str(program.parent))


def test_in_each_sh(sh: None, place: Path, caplog: Any) -> None:
    """As who the tree's owner is, with what is left out, and refused."""
    source, target = made(place / "source", a="new"), made(place / "target", OWNER)
    assert copied(source, target) and (target / "a").owner() == OWNER
    made((other := made(place / "other")) / "two logs", OWNER)
    assert copied(source, other, ("two l*/", "*.pyc"))
    assert (other / "a").read_text() == "new"
    assert not copied(source, other)
    assert "two logs in it belongs to uid" in caplog.text


def test_from_the_controllers_own_folder_of_a_user(place: Path, wire: Path, secret: Path) -> None:
    """A link in its place shows nothing to the nodes that its user may not read."""
    home, target = made(place / "home", OWNER), made(place / "target")
    source = made(home / "source", OWNER, a="new")
    assert copied(source, target) and (target / "a").read_text() == "new"
    source.rename(home / "old")
    source.symlink_to(secret)
    shutil.chown(home, OWNER)
    assert not copied(source, target)
    assert [path.name for path in target.iterdir()] == ["a"]


def test_what_is_left_out_may_be_another_users(place: Path, wire: Path) -> None:
    """Neither rsync nor root goes there."""
    source, target = made(place / "source", a="new"), made(place / "target")
    made(target / "logs", OWNER)
    assert copied(source, target, ("logs/",))
    assert (target / "a").read_text() == "new"


def test_a_link_of_root_on_the_way(place: Path, wire: Path) -> None:
    """As where /data leads to another disk."""
    source, disk = made(place / "source", a="new"), made(place / "disk")
    target = made(disk / "target")
    (place / "data").symlink_to("disk")
    assert copied(source, place / "data" / "target")
    assert (target / "a").owner() == "root"


def test_what_runs_as_its_owner_is_not_copied(place: Path, wire: Path) -> None:
    """Setuid and setgid of files stay away, the setgid of folders stays; twice is once."""
    source, target = made(place / "source", a="new"), made(place / "target")
    (source / "a").chmod(0o6755)
    made(source / "lib").chmod(0o2755)
    os.mkfifo(source / "pipe")
    (source / "out").symlink_to("/etc/passwd")
    assert copied(source, target)
    assert stat.S_IMODE((target / "a").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "lib").stat().st_mode) == 0o2755
    assert not (target / "pipe").exists() and os.readlink(target / "out") == "/etc/passwd"


def test_a_tree_of_a_user_is_read_as_that_user(
    place: Path, wire: Path, secret: Path, nodes: State, caplog: Any
) -> None:
    """A link in its place shows nothing that the user may not read."""
    home, target = made(place / "home", OWNER), made(place / "target", OWNER)
    source = made(home / "source", OWNER, a="new")
    assert copied(source, target, by="a100-01", state=nodes)
    assert (target / "a").read_text() == "new"
    source.rename(home / "old")
    source.symlink_to(secret)
    os.chown(source, *home.stat()[4:6], follow_symlinks=False)
    assert not copied(source, target, by="a100-01", state=nodes)
    assert [path.name for path in target.iterdir()] == ["a"]


def test_an_old_rsync_sends_no_tree_of_a_user(
    place: Path, wire: Path, nodes: State, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One before 3.2 cannot work as another user: refused, with the ways on."""
    old = wire.parent / "bin" / "rsync"
    old.write_text(
        '#!/bin/sh\ncase $* in *--copy-as*) exit 1 ;; --help) echo "rsync 3.1.2"; exit 0 ;; esac\n'
        f'exec {shutil.which("rsync")} "$@"\n'
    )
    old.chmod(0o755)
    source, target = made(place / "source", OWNER, a="new"), made(place / "target", OWNER)
    assert not copied(source, target, by="a100-01", state=nodes)
    assert f"belongs to {OWNER}" in caplog.text and "launcher_user" in caplog.text
    assert list(target.iterdir()) == []


def test_a_tree_of_root_that_another_may_change_is_not_sent(
    place: Path, wire: Path, nodes: State, caplog: Any
) -> None:
    """A link in that folder would show what it leads to."""
    source, target = made(place / "source", a="new"), made(place / "target")
    made(source / "logs", OWNER)
    assert not copied(source, target, by="a100-01", state=nodes)
    assert "logs in it belongs to uid" in caplog.text and list(target.iterdir()) == []
    assert copied(source, target, ("logs",), by="a100-01", state=nodes)


def test_a_user_who_renames_folders_all_the_time(place: Path, wire: Path, secret: Path) -> None:
    """Neither is anything written elsewhere, nor shown."""
    home = made(place / "home", OWNER)
    target, source = made(home / "target", OWNER), made(place / "source", a="new")
    for number in range(200):
        (made(source / f"d{number}") / "shadow").write_text("planted")
    racer = f"""exec 2>/dev/null; cd {home}; ln -s {secret} link
while :; do mv -T target real; mv -T link target; sleep 0.02
mv -T target link; mv -T real target; sleep 0.02
for each in target/d19*; do mv $each gone; ln -s {secret} $each; rm $each; mv gone $each; done
done"""
    with subprocess.Popen(
        ["setpriv", f"--reuid={OWNER}", "--clear-groups", "sh", "-c", racer]
    ) as process:
        try:
            for _ in range(5):
                copied(source, target)
        finally:
            process.kill()
    assert {path.name: path.read_text() for path in secret.iterdir()} == {"shadow": "root:hash"}
    assert stat.S_IMODE(secret.stat().st_mode) == 0o700


BACKUP = f".target.gpu-node-backup/{RUN}"


def prepared(path: Path, shell: str, owner: str = "") -> Ended:
    """Make room for a workspace and its backup."""
    given = {"path": str(path), "owner": owner, "allow": "yes"}
    return run(script("workspace", **given, backup=str(path.parent / BACKUP)), shell)


def test_the_backup_is_whose_the_workspace_is(place: Path, wire: Path, shell: str) -> None:
    """Beside it, closed to all others; what was overwritten is in it."""
    source, target = made(place / "source", a="new"), made(place / "target", OWNER, a="older")
    assert prepared(target, shell) == Ended(0, "", "")
    backup = place / BACKUP
    assert [each.owner() for each in (backup, backup.parent)] == [OWNER, OWNER]
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700
    assert copied(source, target, removal=Removal(1, str(backup)))
    assert ((backup / "a").read_text(), (backup / "a").owner()) == ("older", OWNER)


def test_a_workspace_in_a_users_home_is_made_as_that_user(place: Path, shell: str) -> None:
    """Root makes nothing there."""
    home = made(place / "home", OWNER)
    assert prepared(home / "a" / "target", shell) == Ended(0, "", "")
    below = [home / "a", home / "a" / "target", home / "a" / BACKUP]
    assert [each.owner() for each in below] == [OWNER] * 3


def test_a_backup_of_another_user_is_not_used(place: Path, shell: str) -> None:
    """As one that root kept before the workspace was given to a user."""
    target = made(place / "target", OWNER)
    made(place / ".target.gpu-node-backup")
    done = prepared(target, shell)
    assert done.code == 1 and f"belongs to root, and {OWNER} copies" in done.err
    assert list((place / ".target.gpu-node-backup").iterdir()) == []


def test_old_backups_are_removed_as_whose_they_are(place: Path, shell: str) -> None:
    """Root removes nothing in a user's folder: what only root may remove there stays."""
    folder = made(place / ".target.gpu-node-backup", OWNER)
    made(made(folder / "20260101T000000Z-aaaaaa", OWNER) / "old", OWNER, a="")
    made(made(folder / "20260102T000000Z-aaaaaa", OWNER) / "roots", a="")
    made(folder / "20260103T000000Z-aaaaaa", OWNER)
    asked = {"folder": str(folder), "backup": f"{folder}/{RUN}", "keep": "1"}
    done = run(script("workspace_backups", **asked), shell)
    assert done.code == 0 and "20260102T000000Z-aaaaaa cannot be removed" in done.err
    assert sorted(path.name[:8] for path in folder.iterdir()) == ["20260102", "20260103"]


def test_roots_backups_where_others_write_stay(place: Path, shell: str) -> None:
    """A user who may write beside them could lead root elsewhere."""
    home = made(place / "home", OWNER)
    made(made(home / ".target.gpu-node-backup") / "20260101T000000Z-aaaaaa")
    folder = home / ".target.gpu-node-backup"
    asked = {"folder": str(folder), "backup": f"{folder}/{RUN}", "keep": "0"}
    done = run(script("workspace_backups", **asked), shell)
    assert done.code == 1 and "nothing was removed" in done.err
    assert (folder / "20260101T000000Z-aaaaaa").is_dir()


def test_an_administrator_receives_as_whose_the_tree_is(place: Path, wire: Path) -> None:
    """A user who may become root by sudo could be led elsewhere, as root could."""
    target = made(place / "target", OWNER)
    called = place / "called"
    called.touch(mode=0o666)
    called.chmod(0o666)
    tools = place / "bin"
    tools.mkdir()
    (tools / "sudo").write_text(f'#!/bin/sh\necho "$*" >{called}\n')
    (tools / "sudo").chmod(0o755)
    (option,) = receiver("n", {"ssh_user": "ops", "_sudo": True}, "ops", str(target))
    words = f"PATH={tools}:$PATH; {option.removeprefix('--rsync-path=')} --server ."
    as_ops = ["setpriv", f"--reuid={OTHER}", "--clear-groups", "sh", "-c", words]
    subprocess.run(as_ops, check=True, stderr=subprocess.DEVNULL)
    assert called.read_text().startswith(f"-n -u {OWNER} /bin/sh -c exec rsync '--server' '.'")
    assert receiver("n", {"ssh_user": "ops"}, "ops", str(target)) == []
    assert receiver("n", {"ssh_user": "ops", "_sudo": True}, "train", str(target)) == []


def test_rsync_gives_sudo_no_password(
    place: Path, wire: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stdin is the other end's: the copy is refused before it begins."""
    target = made(place / "target", OWNER)
    monkeypatch.setattr(SUDO, "_answers", {"n": ""})
    (option,) = receiver("n", {"ssh_user": "ops", "_sudo": True}, "ops", str(target))
    words = f"{option.removeprefix('--rsync-path=')} --server ."
    as_ops = ["setpriv", f"--reuid={OTHER}", "--clear-groups", "sh", "-c", words]
    done = subprocess.run(as_ops, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"it belongs to {OWNER}, and rsync cannot give sudo a password; nothing" in done.stderr


def test_roots_backup_where_others_write_is_not_used(place: Path, shell: str) -> None:
    """They could put another folder of root's in its place."""
    open_one = made(place / "data")
    target, kept = made(open_one / "target"), made(open_one / ".target.gpu-node-backup")
    open_one.chmod(0o777)
    done = prepared(target, shell)
    assert done.code == 1 and "users other than root may write in" in done.err
    assert list(kept.iterdir()) == []
