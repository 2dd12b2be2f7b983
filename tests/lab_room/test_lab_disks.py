"""Whether a node is as found is read from its disk, without a running node."""

from pathlib import Path

import pytest

from gpu_node.lab import disks, machine

NODE = "a100-01"


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the node wrote to its /etc, after it was made."""
    monkeypatch.setenv("GPU_NODE_LAB_CACHE", str(tmp_path))
    monkeypatch.setattr(disks, "as_root", machine.run)
    folder = disks.home(NODE) / "upper" / "etc"
    (folder / "security" / "limits.d").mkdir(parents=True)
    (folder / "fstab").write_text("tmpfs /scratch tmpfs size=2G 0 0\n")
    disks.mark_complete(NODE)
    return folder


def test_a_node_just_made_is_as_found(etc: Path) -> None:
    assert disks.is_complete(NODE)
    assert disks.is_as_found(NODE)


def test_a_file_rewritten_as_it_was_is_as_found(etc: Path) -> None:
    """A boot writes some anew; no date counts."""
    (etc / "fstab").write_text((etc / "fstab").read_text())
    assert disks.is_as_found(NODE)


def test_a_changed_file_is_not_as_found(etc: Path) -> None:
    with (etc / "fstab").open("a") as fstab:
        fstab.write("tmpfs /dev/shm tmpfs size=8G 0 0\n")
    assert not disks.is_as_found(NODE)


def test_a_new_file_is_not_as_found(etc: Path) -> None:
    (etc / "security" / "limits.d" / "99-gpu-node.conf").touch()
    assert not disks.is_as_found(NODE)


def test_the_first_fault_leaves_it_as_found_if_marked_again(etc: Path) -> None:
    (etc / "fstab").unlink()
    disks.mark_complete(NODE)
    assert disks.is_as_found(NODE)


def test_a_reset_that_was_cut_off_is_not_as_found(etc: Path) -> None:
    disks.mark_incomplete(NODE)
    assert not disks.is_as_found(NODE)


def test_a_disk_of_an_earlier_release_is_not_known_to_be(etc: Path) -> None:
    """Its mark is empty, so it does not count as found."""
    (disks.home(NODE) / "complete").write_text("")
    assert disks.is_complete(NODE)
    assert not disks.is_as_found(NODE)
