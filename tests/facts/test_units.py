"""The section on units that systemd has not read, in each kind of sh, over a stand-in of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.state import SECTIONS
from tests import node_scripts
from tests.node_scripts import run_apart

(UNITS,) = [section for section in SECTIONS if section.name == "driver.units"]
DROP = "/etc/systemd/system/nvidia-persistenced.service.d/gpu-node.conf"
OWN = "/etc/systemd/system/gpu-node-persistence.service"
WRITTEN = [f"mkdir -p {Path(DROP).parent}", f"touch {DROP} {OWN}"]


@pytest.fixture
def newer(tmp_path: Path, programs: Path) -> Path:
    """The units, one a line, whose files systemd has not read."""
    programs.mkdir()
    program = programs / "systemctl"
    program.write_text(
        f"""#!/bin/sh
[ -e {tmp_path}/newer ] || {{ echo 'Failed to get properties' >&2; exit 1; }}
[ "$1 $2 $3" = 'show -p NeedDaemonReload' ] || exit 2
if grep -qx "$4" {tmp_path}/newer; then echo NeedDaemonReload=yes; else echo NeedDaemonReload=no; fi
"""
    )
    program.chmod(0o755)
    return tmp_path / "newer"


def found(shell: str, *before: str, systemd: bool = True) -> node_scripts.Ended:
    """Run the section where these commands have written files."""
    made = ["mkdir -p /etc/systemd/system", "mount -t tmpfs none /etc/systemd/system"]
    made += ["mount -t tmpfs none /run", *(["mkdir -p /run/systemd/system"] if systemd else [])]
    return run_apart(StringCommand(UNITS.command), shell, "\n".join([*made, *before]))


def test_each_file_that_waits(newer: Path, shell: str) -> None:
    newer.write_text("nvidia-persistenced.service\n")
    assert found(shell, *WRITTEN).out == f"{DROP}\n"
    newer.write_text("gpu-node-persistence.service\n")
    assert found(shell, *WRITTEN).out == f"{OWN}\n"


def test_nothing_of_ours_waits(newer: Path, shell: str) -> None:
    """A unit that an administrator has changed is not ours to report."""
    newer.write_text("nvidia-persistenced.service\n")
    for done in (found(shell), found(shell, *WRITTEN, systemd=False)):
        assert (done.code, done.out, done.err) == (0, "", "")


def test_a_systemd_that_does_not_answer(newer: Path, shell: str) -> None:
    assert found(shell, *WRITTEN).code == 1
