"""What else gives /dev/shm a size at boot, asked really, with each kind of sh, among own mounts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.shm.boot import ASK, BootLine, parse
from tests.node_scripts import run_apart

# Places of the machine that are replaced, among the mounts of one process alone.
ETC, LIB, RC = "/etc/systemd/system", "/usr/lib/systemd/system", "/etc/rc.local"
REMOUNT = "ExecStart=/bin/mount -o remount,size=64M /dev/shm\n"
TWO_LINES = "ExecStart=/bin/sh -c 'mount \\\n  -o remount,nr_inodes=9,size=1G,size=64M /dev/shm/'\n"


def found(tmp_path: Path, shell: str, files: dict[str, str], links: dict[str, str]) -> list[str]:
    """Make these files in an /etc and a folder of units of their own, and ask."""
    for top in (ETC, LIB):
        (tmp_path / top[1:]).mkdir(parents=True)
    shutil.copytree("/etc/alternatives", tmp_path / "etc/alternatives", symlinks=True)
    for name, text in files.items():
        path = tmp_path / name[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    for name, target in links.items():
        (tmp_path / name[1:]).parent.mkdir(exist_ok=True)
        (tmp_path / name[1:]).symlink_to(target)
    mounts = [f"mount --bind {tmp_path}{each} {each}" for each in (LIB, "/etc")]
    done = run_apart(StringCommand(f"set -u\n{ASK}"), shell, "\n".join(mounts))
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()


def rows_of(lines: list[str]) -> list[tuple[str, int, str, str]]:
    """Each line's place, its size and what becomes of it."""
    return sorted((each.path, each.line, each.size, each.state) for each in parse(lines))


def test_units(tmp_path: Path, shell: str) -> None:
    """A unit that a target wants, one that none does, and a drop-in of one of the system's."""
    files = {
        f"{ETC}/on.service": f"[Service]\n# {REMOUNT}{REMOUNT}",
        f"{ETC}/off.service": f"[Service]\n{TWO_LINES}",
        f"{ETC}/systemd-remount-fs.service.d/a.conf": f"[Service]\n\n{REMOUNT}",
        f"{LIB}/systemd-remount-fs.service": "[Service]\nExecStart=/bin/true\n",
        f"{ETC}/on.timer": REMOUNT,
    }
    links = {
        f"{ETC}/multi-user.target.wants/on.service": f"{ETC}/on.service",
        f"{LIB}/local-fs.target.wants/systemd-remount-fs.service": "../systemd-remount-fs.service",
    }
    assert rows_of(found(tmp_path, shell, files, links)) == [
        (f"{ETC}/off.service", 2, "64M", "waits"),
        (f"{ETC}/on.service", 3, "64M", "runs"),
        (f"{ETC}/systemd-remount-fs.service.d/a.conf", 3, "64M", "runs"),
    ]


def test_what_sets_no_size(tmp_path: Path, shell: str) -> None:
    """Sandboxes of services, other mounts below it, a remount without a size, and a comment."""
    other = "ReadWritePaths=/dev/shm\nBindPaths=/dev/shm:/x size=1\n; " + REMOUNT
    files = {
        f"{ETC}/a.service": other + REMOUNT.replace("size=64M", "noexec"),
        f"{ETC}/b.service": REMOUNT.replace("/dev/shm", "/dev/shm/x"),
        f"{ETC}/c.service": "ExecStart=/bin/mkfile --size=64M /dev/shm/file mount\n",
    }
    assert found(tmp_path, shell, files, {}) == []


def test_one_file_hides_another(tmp_path: Path, shell: str) -> None:
    """What is masked, or has a file of its name in /etc, is not read."""
    files = {
        f"{LIB}/masked.service": REMOUNT,
        f"{LIB}/masked.service.d/a.conf": REMOUNT,
        f"{LIB}/other.service": REMOUNT,
        f"{ETC}/other.service": "ExecStart=/bin/true\n",
    }
    lines = found(tmp_path, shell, files, {f"{ETC}/masked.service": "/dev/null"})
    assert rows_of(lines) == [(f"{LIB}/masked.service.d/a.conf", 1, "64M", "waits")]


def test_a_mount_unit(tmp_path: Path, shell: str) -> None:
    """systemd refuses it, and its drop-ins, whatever wants them."""
    files = {
        f"{ETC}/dev-shm.mount": "[Mount]\nWhere=/dev/shm\nOptions = nosuid,size=2G\n",
        f"{ETC}/dev-shm.mount.d/a.conf": "[Mount]\nOptions=size=50%\n",
        f"{ETC}/dev-shm.mount.d/b.conf": "[Mount]\nTimeoutSec=9\n",
    }
    links = {f"{ETC}/local-fs.target.wants/dev-shm.mount": "../dev-shm.mount"}
    assert rows_of(found(tmp_path, shell, files, links)) == [
        (f"{ETC}/dev-shm.mount", 3, "2G", "ignored"),
        (f"{ETC}/dev-shm.mount.d/a.conf", 2, "50%", "ignored"),
    ]


def test_rc_local(tmp_path: Path, shell: str) -> None:
    """A command there runs at the end of the boot."""
    lines = [
        "#!/bin/sh",
        "# mount -o remount,size=1G /dev/shm",
        "mount -o remount,size=4G /dev/shm",
    ]
    assert rows_of(found(tmp_path, shell, {RC: "\n".join(lines)}, {})) == [(RC, 3, "4G", "runs")]


def test_a_unit_of_another_encoding() -> None:
    """What a node sends is a line of known fields, or it is unreadable."""
    (line,) = parse(["runs\t/etc/rc.local\t3\tmount -o remount,size=4G,noexec /dev/shm"])
    assert line == BootLine(
        path="/etc/rc.local",
        line=3,
        text="mount -o remount,size=4G,noexec /dev/shm",
        size="4G",
        state="runs",
    )
    for broken in ("runs\t/etc/rc.local", "other\t/x\t1\tsize=1", "runs\t/x\tone\tsize=1"):
        with pytest.raises(ValueError):
            parse([broken])
