"""RemoveIPC, read from a node's own files: which of them decides, and since when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import assigned
from gpu_node.facts.shm import ipc
from gpu_node.facts.shm.ipc import RemoveIpc, parse
from tests.shells import ask


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with a logind and no settings."""
    (tmp_path / "run/systemd/seats").mkdir(parents=True)
    (tmp_path / "run/systemd/system").mkdir()
    return tmp_path


def write(root: Path, files: dict[str, str], age: int = 10**8) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_000_000_000, path.stat().st_mtime - age))


def found(root: Path, shell: str = "dash", user: str = "") -> RemoveIpc:
    asked = ipc.section(user)
    section = Section(asked.name, assigned(root=root) + asked.command)
    readings = ask(shell, [section])
    state = readings.take(section.name, parse)
    assert state is not None, readings.unread
    return state


# Files, and what they decide: the value, the file and its line.
CASES: dict[str, tuple[dict[str, str], bool, str, int]] = {
    "none": ({}, True, "", 0),
    "compiled otherwise": (
        {"etc/systemd/logind.conf": "[Login]\n#RemoveIPC=no\n"},
        False,
        "",
        0,
    ),
    "the main file": (
        {"etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\nRemoveIPC = no \r\n"},
        False,
        "/etc/systemd/logind.conf",
        3,
    ),
    "another section": (
        {"etc/systemd/logind.conf": "[Manager]\nRemoveIPC=no\n"},
        True,
        "",
        0,
    ),
    "no word of systemd's": (
        {"etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\nRemoveIPC=never\n"},
        False,
        "/etc/systemd/logind.conf",
        2,
    ),
    "a drop-in of the vendor's after ours": (
        {
            "etc/systemd/logind.conf.d/10-site.conf": "[Login]\nRemoveIPC=no\n",
            "usr/lib/systemd/logind.conf.d/50-vendor.conf": "[Login]\nRemoveIPC=yes\n",
        },
        True,
        "/usr/lib/systemd/logind.conf.d/50-vendor.conf",
        2,
    ),
    "one that hides the vendor's": (
        {
            "etc/systemd/logind.conf": "[Login]\nRemoveIPC=yes\n",
            "run/systemd/logind.conf.d/50.conf": "[Login]\nRemoveIPC=off\n",
            "usr/lib/systemd/logind.conf.d/50.conf": "[Login]\nRemoveIPC=yes\n",
        },
        False,
        "/run/systemd/logind.conf.d/50.conf",
        2,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_which_file_decides(root: Path, case: str, shell: str) -> None:
    files, removes, path, line = CASES[case]
    write(root, files)
    state = found(root, shell)
    assert (state.runs, state.removes) == (True, removes)
    decides = state.decides
    assert (decides.path, decides.line) == (path, line) if decides else path == ""
    assert decides is None or not decides.is_later


def test_a_link_to_nothing_hides_a_file(root: Path) -> None:
    write(root, {"usr/lib/systemd/logind.conf.d/50.conf": "[Login]\nRemoveIPC=no\n"})
    (root / "etc/systemd/logind.conf.d").mkdir(parents=True)
    (root / "etc/systemd/logind.conf.d/50.conf").symlink_to("/dev/null")
    assert found(root).settings == ()


def test_a_file_that_logind_has_not_read(root: Path) -> None:
    write(root, {"etc/systemd/logind.conf.d/99-gpu-node.conf": "[Login]\nRemoveIPC=no\n"}, age=0)
    decides = found(root).decides
    assert decides is not None and decides.is_later
    pid = root / "sys/fs/cgroup/system.slice/systemd-logind.service/cgroup.procs"
    pid.parent.mkdir(parents=True)
    pid.write_text("1\n")
    assert found(root).settings[0].is_later


def test_whose_logout_counts(root: Path) -> None:
    state = found(root, user="www-data")
    assert (state.user, state.uid, state.lingers) == ("www-data", 33, False)
    assert found(root, user="nosuchuser").uid is None
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    (root / "var/lib/systemd/linger/www-data").touch()
    assert found(root, user="www-data").lingers


def test_whose_segments_are_deleted() -> None:
    """Those of ordinary users who do not linger: root and system users are exempt."""
    concerned = [RemoveIpc(runs=True, uid=uid).concerns_user for uid in (0, 33, 999, 1000, None)]
    assert concerned == [False, False, False, True, False]
    assert not RemoveIpc(runs=True, uid=1000, lingers=True).concerns_user


@pytest.mark.parametrize("folders", [[], ["system"], ["seats"]], ids=" ".join)
def test_a_machine_without_logind(tmp_path: Path, folders: list[str], shell: str) -> None:
    """An image with systemd's folders, whose first process is another; a systemd without logind."""
    for name in folders:
        (tmp_path / "run/systemd" / name).mkdir(parents=True)
    assert found(tmp_path, shell) == RemoveIpc(runs=False)


def test_an_incomplete_answer() -> None:
    with pytest.raises(Unreadable):
        parse("user\troot\t0\tno")
