"""Names that a process chooses, with newlines in them: no line of an answer can be forged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import HELD
from gpu_node.facts.driver import gpus
from gpu_node.facts.probe.protocol import Section
from tests.shells import ask

# Opens a file whose name looks like the lines of `ls`, and takes a name that looks like a line.
FORGER = """
import ctypes, fcntl, os, sys, time
name = "x\\n/proc/1/fd:\\nl 1 -> /dev/nvidia0"
os.makedirs(sys.argv[1] + "/x\\n/proc/1/fd:\\nl 1 -> /dev", exist_ok=True)
file = open(sys.argv[1] + "/" + name, "w")
os.makedirs(sys.argv[1] + "/e\\nz -> /var/lib/dpkg", exist_ok=True)
locked = open(sys.argv[1] + "/e\\nz -> /var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(locked, fcntl.LOCK_EX)
held = open(sys.argv[1] + "/held", "w")
ctypes.CDLL(None).prctl(15, b"a\\n1\\tb", 0, 0, 0)
print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def forger(tmp_path: Path) -> Iterator[int]:
    """A process with such names."""
    words = [sys.executable, "-c", FORGER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "\n"
        yield process.pid
        process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the files of others")
def test_who_holds_a_gpu(forger: int, shell: str) -> None:
    """The file of one process gives another one no GPU."""
    (section,) = (each for each in gpus.SECTIONS if each.name == "driver.processes")
    readings = ask(shell, [section])
    text = readings.sections[section.name].require()
    assert not [line for line in text.splitlines() if line.startswith("1\t")]
    assert all(line.count("\t") == 3 for line in text.splitlines())


def test_who_holds_a_lock(forger: int, shell: str) -> None:
    """A name is one word in one line."""
    functions = HELD.partition("\nawk")[0]
    ask_name = f"{functions}\nname_of {forger}"
    readings = ask(shell, [Section("held", ask_name)])
    assert readings.sections["held"].require() == "a?1?b"


def test_a_lock_by_name_alone(forger: int, shell: str) -> None:
    """A file whose name looks like that of dpkg's lock is another one."""
    output = ask(shell, [Section("held", HELD)]).sections["held"].require()
    assert f"\t{forger}\t" not in output
