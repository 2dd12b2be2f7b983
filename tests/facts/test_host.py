"""The scripts of the sections of `host`, in each shell, with programs and files of a test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpu_node.facts.host.state import HostFact, parse_boots, parse_disks, parse_log, parse_mounts
from tests.shells import SHELLS

SCRIPTS = {each.name: each.command for each in HostFact.sections}
FIRST = "pid:[4026531836]"


def _program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _run(shell: str, script: str, programs: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = [*SHELLS[shell], "-c", script]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs in which this is a machine, also where the tests run in a container."""
    folder = tmp_path / "programs"
    folder.mkdir()
    _program(folder, "readlink", f"echo '{FIRST}'")
    return folder


MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 8:2 / {data} rw - xfs /dev/sdb1 rw
23 21 0:40 / {nas} rw - nfs4 nas:/home rw
24 21 0:41 / {auto} rw - autofs systemd-1 rw
"""


def test_only_local_file_systems_are_asked(shell: str, machine: Path, tmp_path: Path) -> None:
    """Not a home on NFS, nor a workspace that a link leads there, nor one behind an automount.

    A folder that is asked for twice, as /var of a new server, counts once.
    """
    data, nas, auto = (tmp_path / name for name in ("data", "nas", "auto"))
    for folder in (data / "train", nas / "home", auto):
        folder.mkdir(parents=True)
    (data / "link").symlink_to(nas / "home")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(data=data, nas=nas, auto=auto))
    _program(machine, "getent", f"echo 'train:x:1000:1000::{nas}/home:/bin/bash'")
    asked = tmp_path / "asked"
    _program(
        machine,
        "df",
        f'echo "$*" >>{asked}; echo head; shift\n'
        'for each; do echo "/dev/x 100 90 10 90% $each"; done',
    )
    paths = f"/var {data}/link/ws {data}/train/new {auto}/ws {data}/train/new"
    script = SCRIPTS["host.disks"].replace("set -- \n", f"set -- {paths}\n", 1)
    script = script.replace("/proc/self/mountinfo", str(mounts))
    done = _run(shell, script, machine)
    assert done.stderr == ""
    disks = {disk.point: disk.paths for disk in parse_disks(done.stdout)}
    assert disks == {"/": ("/", "/tmp", "/var"), str(data): (f"{data}/train/new",)}
    assert asked.read_text().splitlines() == [f"-Pk / {data}", f"-Pi / {data}"]


@pytest.mark.parametrize("there", ["", "bob", "bob/.cache"])
def test_a_home_that_does_not_exist_is_on_no_disk(
    shell: str, there: str, machine: Path, tmp_path: Path
) -> None:
    """A report does not name a folder of a user that the user does not have."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text("21 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    home = tmp_path / "bob"
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    _program(machine, "getent", f"echo 'bob:x:1000:1000::{home}:/bin/bash'")
    _program(machine, "df", "echo head; echo '/dev/x 100 90 10 90% /'")
    done = _run(shell, SCRIPTS["host.disks"].replace("/proc/self/mountinfo", str(mounts)), machine)
    (disk,) = parse_disks(done.stdout)
    theirs = [str(each) for each in (home, home / ".cache") if each.is_dir()]
    assert list(disk.paths) == ["/", "/tmp", "/var", *theirs]


def test_the_newest_kills_are_sent(shell: str, machine: Path) -> None:
    """All are counted, and of a long list the last 20 are sent."""
    lines = "".join(
        f"[  10{number}.5] Out of memory: Killed process {number} (python) total-vm:9kB\n"
        for number in range(1, 31)
    )
    _program(machine, "dmesg", f"cat <<'END'\n[    0.000000] Linux version\n{lines}END")
    log = parse_log(_run(shell, SCRIPTS["host.log"], machine).stdout)
    assert (log.whole, log.count, len(log.kills)) == (True, 30, 20)
    assert (log.kills[-1].pid, log.kills[-1].at) == (30, 1030.5)


def test_an_xid_is_sent_once_for_each_gpu_and_code(shell: str, machine: Path) -> None:
    """With its number of times and its newest line; a burst of them is one line, and no program's
    name makes one.
    """
    lines = [
        *(f"[ {at}.5] NVRM: Xid (PCI:0000:05:00): 45, pid={at}, name=python" for at in range(900)),
        "[  901.0] NVRM: Xid (PCI:0000:06:00): 45, pid=1, name=python",
        "[  902.0] NVRM: Xid (PCI:0000:05:00): 79, pid=1, name=Xid (0): 48,",
        "[  903.0] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32",
        "[  904.0] Xid (PCI:0000:05:00[99]: segfault at 0",
    ]
    given = "\n".join(["[    0.000000] Linux version", *lines])
    _program(machine, "dmesg", f"cat <<'END'\n{given}\nEND")
    log = parse_log(_run(shell, SCRIPTS["host.log"], machine).stdout)
    assert [(each.code, each.slot, each.times, each.at) for each in log.xids] == [
        (45, "0000:05:00", 900, 899.5),
        (45, "0000:06:00", 1, 901.0),
        (79, "0000:05:00", 1, 902.0),
        (12028, "0000:c1:00.0", 1, 903.0),
    ]


def test_a_server_of_nfs_that_answers_again(shell: str, machine: Path) -> None:
    """Only one whose last line is that it does not respond; lines as fs/nfs and net/sunrpc have."""
    lines = [
        "[  100.0] nfs: server nas.lan not responding, still trying",
        "[  101.0] nfs: server 10.0.0.9 not responding, timed out",
        "[  150.0] nfs: server nas.lan OK",
    ]
    given = "\n".join(["[    0.000000] Linux version", *lines])
    _program(machine, "dmesg", f"cat <<'END'\n{given}\nEND")
    assert parse_log(_run(shell, SCRIPTS["host.log"], machine).stdout).hung == ("10.0.0.9",)


def test_mounts_of_a_network(shell: str, machine: Path, tmp_path: Path) -> None:
    """Those of containers and of the system are left out."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "30 21 0:40 / /data rw,relatime shared:9 - nfs4 nas:/export/data rw,vers=4.2\n"
        "31 21 0:41 / /ref ro,relatime - nfs nas:/ref rw\n"
        "32 21 0:42 / /home rw - autofs /etc/auto.home rw,fd=7\n"
        "33 21 0:43 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n"
        r"35 21 0:45 / /a\040b rw - ceph 10.0.0.1:6789:/ rw" + "\n"
        "34 21 0:44 / /var/lib/docker/volumes/x/_data rw - nfs4 nas:/x rw\n"
    )
    script = SCRIPTS["host.mounts"].replace("/proc/self/mountinfo", str(mounts))
    done = _run(shell, script, machine)
    assert (done.returncode, done.stderr) == (0, "")
    found = parse_mounts(done.stdout)
    assert [(each.point, each.source, each.read_only) for each in found.found] == [
        ("/data", "nas:/export/data", False),
        ("/ref", "nas:/ref", True),
        (r"/a\040b", "10.0.0.1:6789:/", False),
    ]
    assert found.automatic == ("/home",)


@pytest.mark.parametrize("counts", [True, False])
def test_a_log_that_may_not_be_read(
    shell: str, counts: bool, machine: Path, tmp_path: Path
) -> None:
    """It is an error only where the kernel has no counter of its own (Linux 3.10)."""
    why = "dmesg: read kernel buffer failed: Operation not permitted"
    _program(machine, "dmesg", f"echo '{why}' >&2; exit 1")
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pswpin 0\noom_kill 2\n" if counts else "pswpin 0\n")
    script = SCRIPTS["host.log"].replace("/proc/vmstat", str(vmstat))
    done = _run(shell, script, machine)
    if counts:
        assert (done.returncode, parse_log(done.stdout).denied) == (0, why)
    else:
        assert (done.returncode, done.stdout.strip()) == (1, why)


@pytest.mark.parametrize(
    ("last", "tail", "journal"),
    [
        ("exit 1", "Reached target Reboot.", "clean"),
        ("exit 1", "systemd-journald: Journal stopped", "unclean"),
        ("exit 1", "Journal stopped", "clean"),
        ("exit 1", "python: loss 0.3", "unclean"),
        ("exit 1", "", ""),
        (
            "echo 'reboot   system boot  6.1 Tue Nov 24 08:30:01 2026   still running'",
            "x",
            "unclean",
        ),
        (
            "echo 'reboot   system boot  6.1 Tue Nov 24 08:30:01 2026   still running'\n"
            "echo 'shutdown system down  6.1 Tue Nov 24 08:29:01 2026 - x'",
            "x",
            "",
        ),
    ],
)
def test_the_journal_is_asked_where_wtmp_does_not_show_it(
    shell: str, last: str, tail: str, journal: str, machine: Path, tmp_path: Path
) -> None:
    """Two rows of wtmp are enough."""
    _program(machine, "last", last)
    _program(machine, "journalctl", f"echo '{tail}'" if tail else "exit 1")
    (tmp_path / "journal" / "abc").mkdir(parents=True)
    (tmp_path / "id").write_text("abc\n")
    script = SCRIPTS["host.boots"].replace("/var/log/journal", str(tmp_path / "journal"))
    script = script.replace("/etc/machine-id", str(tmp_path / "id"))
    boots = parse_boots(_run(shell, script, machine).stdout)
    assert boots.journal == journal
    assert len(boots.rows) == last.count("echo")


@pytest.mark.parametrize("name", ["host.log", "host.boots"])
def test_nothing_is_read_in_a_container(shell: str, name: str, machine: Path) -> None:
    """The log and the boots are those of another machine."""
    _program(machine, "readlink", "echo 'pid:[4026532999]'")
    for program in ("dmesg", "last", "journalctl"):
        _program(machine, program, "echo read; exit 1")
    assert _run(shell, SCRIPTS[name], machine).stdout == "container\n"
