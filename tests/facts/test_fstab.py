"""The lines of /etc/fstab for /dev/shm are those that mount reads, by findmnt's word."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.shm.boot import ASK
from tests.node_scripts import run_apart

LINES = (
    "tmpfs /dev/shm tmpfs defaults,size=8G 0 0",
    "tmpfs /dev/shm tmpfs defaults,size=8G",
    "tmpfs /dev/shm/ tmpfs size=8G 0",
    "tmpfs /dev/shm tmpfs defaults, size=8G 0 0",
    "tmpfs /dev/shm tmpfs defaults size=8G 0 0",
    "tmpfs /dev/shm tmpfs size=8G 0 0 # ours",
    "tmpfs /dev/shm tmpfs size=8G # ours",
    "# tmpfs /dev/shm tmpfs size=8G 0 0",
)


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_read_as_by_mount(line: str, shell: str, tmp_path: Path) -> None:
    fstab = tmp_path / "fstab"
    fstab.write_text(f"{line}\n")
    done = run_apart(StringCommand(ASK), shell, f"mount --bind {fstab} /etc/fstab")
    assert done.code == 0
    read = [each for each in done.out.splitlines() if each[0].isdecimal()]
    findmnt = [str(shutil.which("findmnt")), "--tab-file", str(fstab), "-n", "-o", "TARGET"]
    known = subprocess.run(findmnt, capture_output=True, check=False).stdout.decode().splitlines()
    assert (len(read), read in ([], [f"1 {line}"])) == (len(known), True)
