"""A process that ends while it is looked at hides no other, and its end is no part of an answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.facts.env import inherited
from gpu_node.facts.env import state as env
from gpu_node.facts.probe.protocol import Reading, Section, read, render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.shm import segments
from tests import shells

# Holds a file of /dev/shm, and looks like a rank of a training.
RANK = """
import ctypes, mmap, os, sys, time
file = open(sys.argv[1], "w+b")
file.truncate(4096)
held = mmap.mmap(file.fileno(), 4096)
ctypes.CDLL(None).prctl(15, b"python", 0, 0, 0)
print(flush=True)
time.sleep(120)
"""
# What is read of it fails, as with a process that ends after its file was opened.
HIDE = """
for file in stat status; do mount --bind "/proc/$$/mem" "/proc/$1/$file"; done
shift
exec "$@"
"""
SEGMENT = Path(f"/dev/shm/nccl-test-{os.getpid()}")


@pytest.fixture
def ranks() -> Iterator[list[int]]:
    """Two such processes; the first one must not appear in the answer."""
    words = [sys.executable, "-c", RANK, str(SEGMENT)]
    begun = [
        subprocess.Popen(
            words, stdout=subprocess.PIPE, env={**os.environ, "RANK": "0"}, start_new_session=True
        )
        for _ in range(2)
    ]
    try:
        assert all(each.stdout and each.stdout.readline() == b"\n" for each in begun)
        yield [each.pid for each in begun]
    finally:
        for each in begun:
            each.kill()
            each.communicate()
        SEGMENT.unlink()


def ask(section: Section, ended: int, awk: list[str], folder: Path) -> Reading:
    """What a node answers with that awk; a process ends each time that it is looked at."""
    path = shells.machine_with(folder, "awk")["PATH"]
    wrapper = folder / "awk"
    wrapper.write_text(f'#!/bin/sh\nexec {" ".join(awk)} "$@"\n')
    wrapper.chmod(0o755)
    for name in ("dash", "getent", "su"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    hidden = ["unshare", "--mount", "sh", "-c", HIDE, "sh", str(ended)]
    words = [*hidden, "env", f"PATH={path}", "dash", "-c", render([section])]
    done = subprocess.run(words, capture_output=True, timeout=120, text=True)
    assert done.returncode == 0, done.stderr
    return read(done.stdout.splitlines(), [section]).sections[section.name]


AWKS = (["/usr/bin/mawk"], ["/usr/bin/original-awk"], ["/usr/bin/busybox", "awk"])
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root hides a file of /proc")


@needs_root
@pytest.mark.parametrize("awk", AWKS, ids=lambda words: words[-1].rpartition("/")[2])
def test_who_has_an_environment(ranks: list[int], awk: list[str], tmp_path: Path) -> None:
    """The other rank is found."""
    sections = env.sections(ProbeRequest(variables=("RANK",)))
    (section,) = (each for each in sections if each.name == "env.processes")
    reading = ask(section, ranks[0], awk, tmp_path / "bin")
    found = [each.pid for each in inherited.parse_processes(reading.require())]
    assert ranks[1] in found
    assert ranks[0] not in found


@needs_root
@pytest.mark.parametrize("awk", AWKS, ids=lambda words: words[-1].rpartition("/")[2])
def test_who_holds_a_segment(ranks: list[int], awk: list[str], tmp_path: Path) -> None:
    """All is looked at to the end."""
    reading = ask(segments.USE, ranks[0], awk, tmp_path / "bin")
    words = [line.split() for line in reading.require().splitlines()]
    assert ["seen"] in words
    assert {line[0] for line in words} <= {
        *("clock", "used", "segment", "adopted", "launched", "command", "unseen", "seen")
    }
