"""File systems: places as the shells tell them, and which files nodes share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpu_node.facts.probe.file_systems import (
    PLACES,
    Place,
    are_shared,
    is_network,
    only,
    parse_places,
)
from gpu_node.facts.probe.protocol import Unreadable
from tests.shells import SHELLS

CHANGED, LATER = "2026-11-21 17:37:02.400000000 +0000", "2026-11-22 09:00:00.000000001 +0000"
HOME = Place(kind="nfs4", source="nas:/home", inode=77, changed=CHANGED)


def other(**given: str | int) -> Place:
    """Return HOME's place with other values."""
    return HOME.model_copy(update=given)


@pytest.mark.parametrize(
    ("theirs", "answer"),
    [
        pytest.param(HOME, True, id="the same file"),
        pytest.param(other(inode=78, source="nas:/scratch"), False, id="another export"),
        pytest.param(other(inode=78), None, id="another inode by the same mount source"),
        pytest.param(other(changed=LATER), None, id="changed between the two looks"),
        pytest.param(other(source="192.0.2.9:/home"), None, id="the server by another name"),
        pytest.param(other(changed=""), None, id="a node that cannot tell the ctime"),
        pytest.param(other(kind="ext4"), False, id="a disk of its own"),
    ],
)
def test_what_is_shared(theirs: Place, answer: bool | None) -> None:
    assert are_shared({"/home/u": HOME}, {"/home/u": theirs}) is answer


def test_cloned_disks_are_not_shared() -> None:
    disk = {"/home/u": other(kind="ext4", source="/dev/sda1")}
    assert are_shared(disk, disk) is False


def test_one_equal_file_is_enough() -> None:
    mine = {"/home/u": HOME, "/home/u/.bashrc": other(inode=5)}
    theirs = {"/home/u": other(changed=LATER), "/home/u/.bashrc": other(inode=5)}
    assert are_shared(mine, theirs) is True


def test_another_folder_that_is_shared_says_nothing_of_this_one() -> None:
    """A node may have one share with another one, and disks of its own beside it."""
    mine = {"/nfs/a": HOME, "/data/b": other(inode=5)}
    theirs = {"/nfs/a": HOME, "/data/b": other(kind="ext4")}
    assert are_shared(only(mine, "/nfs/a"), only(theirs, "/nfs/a")) is True
    assert are_shared(only(mine, "/data/b"), only(theirs, "/data/b")) is False
    assert only({"/nfs": HOME, "/": other(inode=1)}, "/nfs/not there") == {"/nfs": HOME}
    assert only({"/nfs": HOME}, "/nfs2") is None


def test_a_link_to_a_name_with_lines_of_ours(tmp_path: Path, shell: str) -> None:
    """The link's owner chooses where it leads; the answer is about the files that were asked."""
    forged = tmp_path / f"x\nfile\t/home/bob\t/proc\nstat\t5\t{CHANGED}\t/proc"
    forged.mkdir(parents=True)
    (tmp_path / "mine").symlink_to(forged)
    command = f"{PLACES}\nplaces '{tmp_path}/mine' '{tmp_path}/mine/.' '{tmp_path}'"
    done = subprocess.run(
        [*SHELLS[shell], "-c", command], capture_output=True, text=True, timeout=20, check=True
    )
    assert list(parse_places(done.stdout)) == [str(tmp_path)]


def test_what_was_not_reported_is_unknown() -> None:
    assert are_shared(None, {"/home/u": HOME}) is None
    assert not is_network(None, "/home/u")


@pytest.mark.parametrize("kind", ["nfs", "fuse.bindfs", "fuse", "lustre", "9p"])
def test_kinds_that_other_machines_may_have(kind: str) -> None:
    assert is_network({"/home/u": other(kind=kind)}, "/home/u")


def test_what_is_not_there_would_lie_in_the_folder_above(shell: str, tmp_path: Path) -> None:
    """So two nodes that lack it know whether they would make one and the same."""
    script = f'{PLACES}\nabove "$1"; above /gone/too'
    command = [*SHELLS[shell], "-c", script, "sh", str(tmp_path / "gone" / "env")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    assert list(parse_places(done.stdout)) == [str(tmp_path), "/"]


def test_each_shell_reports_a_files_place(shell: str, tmp_path: Path) -> None:
    file = tmp_path / "with blank"
    file.write_text("x")
    link = tmp_path / "link"
    link.symlink_to(file)
    script = f'{PLACES}\nplaces "$@"'
    command = [*SHELLS[shell], "-c", script, "sh", str(link), str(tmp_path / "gone")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    (path, place), *rest = parse_places(done.stdout).items()
    assert (path, place.inode, rest) == (str(link), file.stat().st_ino, [])
    assert place.changed.endswith(f".{file.stat().st_ctime_ns % 10**9:09d} +0000")
    wanted = subprocess.run(
        ["findmnt", "-n", "-o", "FSTYPE,SOURCE", "-T", str(file)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert [place.kind, place.source] == [wanted[0], wanted[1].partition("[")[0]]


@pytest.mark.parametrize(
    "line",
    ["/home/u\tnfs4\tnas:/home\t-1\t", "/home/u\tnfs 4\tnas\t1\t", "/home/u\tnfs\ta\x1b[2J\t1\t"],
)
def test_a_line_that_is_no_place_is_refused(line: str) -> None:
    with pytest.raises((Unreadable, ValueError)):
        parse_places(line)
