"""Processes whose names have newlines, brackets and bytes that are not text, really: a name changes
no field and no pid, hides no process, and is plain text in each answer."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from gpu_node.deploy.engine import scripts
from gpu_node.facts import fabric
from gpu_node.facts.driver import gpus
from gpu_node.facts.env import inherited
from gpu_node.facts.env import state as env
from gpu_node.facts.node import SECTIONS
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.probe.protocol import Section, read, render
from gpu_node.facts.probe.redaction import AWK
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.shm import docker, segments
from gpu_node.lab.machine import as_root
from tests.shells import SHELLS, as_lines, ask

NAMES = {
    "newline": b"python\n77777 (",
    "brackets": b"python) S 1 1 (",
    "fields": b"py) R 7\n8 (x) R",
    "bytes": b"python\xff\xfe\xc3\xa9\x80",
    "separator": b"python\xe2\x80\xa8\xc2\x85",
    "escapes": b"python\\n7 1",
    "cut": b"python\\c",
    "tabs": b"python\t1\t2\x01\x7f",
}
# A parent that looks like an init, and its child of a hostile name, which holds a GPU and a segment
# and has a libnccl mapped. It prints both pids.
HOSTILE = """
import ctypes, mmap, os, sys, time
libc = ctypes.CDLL(None)
libc.prctl(15, b"tini", 0, 0, 0)
if os.fork() == 0:
    os.setsid()
    libc.prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)
    gpu = open("/dev/nvidia0")
    files = [open("/dev/shm/nccl-test", "w+b"), open("/dev/shm/libnccl.so.2", "w+b")]
    for each in files:
        each.truncate(4096)
    held = [mmap.mmap(each.fileno(), 4096) for each in files]
    os.setuid(int(sys.argv[2]))
    print(os.getppid(), os.getpid(), flush=True)
os.close(1)
time.sleep(60)
"""
# Runs that, PROGRAM -c TEXT NAME UID, then the rest: one line of pids, then what the rest prints.
AMONG_DEVICES = """
mount -t tmpfs gpus /dev || exit 1
mknod -m 666 /dev/null c 1 3
mknod -m 444 /dev/urandom c 1 9
mkdir -m 1777 /dev/shm; : >/dev/nvidia0
mkfifo /dev/pids
RANK=0 "$1" -c "$2" "$3" "$4" >/dev/pids &
head -n 1 /dev/pids
shift 4
"$@"
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the files of others")


def beside(
    name: bytes, shell: str, script: str, folder: Path, uid: int = 0
) -> tuple[int, int, str]:
    """Run a script in a shell beside the hostile process: the pids of both, and its output."""
    (folder / "script").write_text(script)
    program, *options = SHELLS[shell]
    alone = ["--mount", "--mount-proc", "--pid", "--fork", "--kill-child"]
    words = ["unshare", *alone, "sh", "-c", AMONG_DEVICES, "sh", sys.executable, HOSTILE]
    run = [str(shutil.which(program)), *options, str(folder / "script")]
    done = as_root([*words, name.hex(), str(uid), *run], check=False, timeout=60)
    pids, _, output = done.stdout.partition("\n")
    parent, child = map(int, pids.split())
    assert done.stderr == "" or "gpu-node:" in done.stderr, done.stderr
    return parent, child, output + done.stderr


def answer(
    name: bytes, shell: str, section: Section, folder: Path, uid: int = 0
) -> tuple[int, int, str]:
    """The answer of a section, which is plain text."""
    parent, child, output = beside(name, shell, render([section]), folder, uid)
    text = read(as_lines(output.encode()), [section]).sections[section.name].require()
    assert text.replace("\n", "").replace("\t", "").isprintable() and text.isascii()
    return parent, child, text


def called(sections: tuple[Section, ...], name: str) -> Section:
    """The section of a name."""
    (section,) = (each for each in sections if each.name == name)
    return section


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> bytes:
    """Each kind of name."""
    return NAMES[request.param]


@needs_root
def test_who_holds_a_gpu(name: bytes, shell: str, tmp_path: Path) -> None:
    """One process, by its pid."""
    section = called(gpus.SECTIONS, "driver.processes")
    _, child, text = answer(name, shell, section, tmp_path)
    (found,) = gpus.parse_processes(text)
    assert (found.pid, found.user) == (child, "root") and found.command.startswith("py")


@needs_root
def test_who_holds_a_segment(name: bytes, shell: str, tmp_path: Path) -> None:
    """Its pid, parent and start are those of the kernel."""
    parent, child, text = answer(name, shell, segments.USE, tmp_path)
    found = segments.parse(text)
    (orphan,) = found.adopted
    assert (orphan.pid, orphan.parent, orphan.parent_name) == (child, parent, "tini")
    assert (orphan.segments, orphan.gpus, orphan.launched) == (1, 1, ("RANK",))
    assert orphan.age < 60 and not orphan.tty


@needs_root
def test_who_has_an_environment(name: bytes, shell: str, tmp_path: Path) -> None:
    """Where its name is that of a trainer, it is one."""
    sections = env.sections(ProbeRequest(variables=("RANK",)))
    _, child, text = answer(name, shell, called(sections, "env.processes"), tmp_path)
    found = [each.pid for each in inherited.parse_processes(text)]
    assert (child in found) == name.startswith(b"python")
    assert 77777 not in found


PROGRAMS = {
    "mawk": 'awk() { mawk "$@"; }',
    "original-awk": 'awk() { original-awk "$@"; }',
    "busybox": 'awk() { busybox awk "$@"; }; grep() { busybox grep "$@"; }',
}


@needs_root
@pytest.mark.parametrize("programs", PROGRAMS)
def test_whose_parents(name: bytes, programs: str, tmp_path: Path) -> None:
    """The fields behind a name, for all that read them: one process a line, and nothing else."""
    asked = f"{PROGRAMS[programs]}\n{PROCESS}process_stat"
    parent, child, output = beside(name, "dash", asked, tmp_path)
    rows = [line.split("\t") for line in output.splitlines()]
    by_pid = {int(row[0].split()[0]): row for row in rows}
    fields, shown = by_pid[child]
    assert len(by_pid) == len(rows) and all(len(row) == 2 for row in rows)
    assert fields.split()[2:3] == [str(parent)] and len(fields.split()) > 40
    assert shown == "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in name)


@needs_root
@pytest.mark.parametrize("disturbs", ["libraries", "reboot"])
def test_who_keeps_a_change_from_being_made(
    disturbs: str, name: bytes, shell: str, tmp_path: Path
) -> None:
    """The process is named by its pid, whatever its name; no other line is in the refusal."""
    head = f"gn_hide={shlex.quote(AWK)}\ngn_process={shlex.quote(PROCESS)}\n"
    text = "\n".join(map(scripts.text, ("containers", "boot_ends", "in_use")))
    # Processes of root count where they belong to a login.
    text = text.replace("is_login() {", "is_login() {\nreturn 0\n")
    asked = f"{head}allow=no trainer=root holders= disturbs={disturbs}\n{text}"
    _, child, output = beside(name, shell, asked, tmp_path)
    assert f"pid {child} (root: " in output
    assert len(output.splitlines()) == 1 and output.strip().isprintable()


@needs_root
@pytest.mark.parametrize("uid", [0, 1])
def test_no_fabric_manager_by_name_alone(uid: int, shell: str, tmp_path: Path) -> None:
    """Only root's is one."""
    section = called(fabric.SECTIONS, "fabric.switches")
    _, _, text = answer(b"nv-fabricmanage", shell, section, tmp_path, uid)
    assert ("running" in text.splitlines()) == (uid == 0)


@pytest.mark.parametrize("asked", ["fabric.switches", "env.processes", "shm.use"])
def test_a_list_that_is_not_whole(asked: str, shell: str, tmp_path: Path) -> None:
    """That a process is not in it is unknown, and the section has no other answer."""
    section = called(SECTIONS, asked)
    (tmp_path / "xargs").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "xargs").chmod(0o755)
    readings = ask(shell, [section], {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    answer = readings.sections[asked]
    assert "seen" not in answer.text.splitlines()
    if asked != "shm.use":
        assert (answer.rc, answer.text.split("\n")[-1]) == (1, "the processes cannot be listed")


CONTAINER = "36 1 0:30 / {point} rw - tmpfs shm rw,size=65536k\n"


@pytest.mark.parametrize("comm", NAMES.values(), ids=NAMES)
def test_a_container(comm: bytes, shell: str, tmp_path: Path) -> None:
    """One row, whatever its process and its cgroup are called."""
    (tmp_path / "run" / "docker").mkdir(parents=True)
    for pid, space in (("self", 1), ("42", 2)):
        folder = tmp_path / "proc" / pid
        (folder / "ns").mkdir(parents=True)
        (folder / "ns" / "mnt").symlink_to(f"mnt:[{space}]")
    (folder / "comm").write_bytes(comm + b"\n")
    (folder / "cgroup").write_bytes(b"0::/a\tb\xff.scope\n")
    (folder / "mountinfo").write_text(
        "".join(CONTAINER.format(point=each) for each in ("/dev/nvidia0", "/dev/shm"))
    )
    section = called(docker.SECTIONS, docker.CONTAINERS)
    asked = f"root={tmp_path}; export root\n{render([section])}"
    (tmp_path / "script").write_text(asked)
    program, *options = SHELLS[shell]
    words = [str(shutil.which(program)), *options, str(tmp_path / "script")]
    done = as_root(words)
    readings = read(as_lines(done.stdout.encode()), [section])
    (found,) = docker.taken_containers(readings) or ()
    assert (found.pid, found.shm, found.cgroup) == (42, 64 << 20, "/a?b?.scope")
    assert found.name == "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in comm)
