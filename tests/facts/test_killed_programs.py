"""A program that is killed at its time limit: the shell's "Killed" does not enter the output."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.request import Joining, ProbeRequest
from gpu_node.facts.ssh import mesh, scans
from tests.shells import SHELLS, ask

pytestmark = pytest.mark.slow

PEER = Peer(name="a", address="192.0.2.1")
# Ends as a program does that timeout kills: timeout kills itself with it.
KILLED = """#!/bin/sh
read -r parent </proc/$PPID/comm
[ "$parent" != timeout ] || kill -KILL $PPID $$
"""


def _of_mesh(name: str) -> Section:
    return next(each for each in mesh.sections(ProbeRequest(nodes=(PEER,))) if each.name == name)


CASES = {
    "ssh": (_of_mesh("ssh.logins"), ["pair a address 137", "pair a name 137"]),
    "getent": (_of_mesh("ssh.names"), ["address a 192.0.2.1", "name a ?"]),
    "ssh-keyscan": (scans.section(Joining(PEER, (PEER,))), ["none a no SSH answers there"]),
}
# Lines about this machine.
OWN = ("source ",)


@pytest.mark.parametrize("program", CASES)
def test_the_shell_adds_nothing(
    shell: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever shell asks, and is the node's `sh`."""
    section, wanted = CASES[program]
    (tmp_path / program).write_text(KILLED)
    (tmp_path / program).chmod(0o755)
    (tmp_path / "sh").symlink_to(str(shutil.which(SHELLS[shell][0])))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    reading = ask(shell, [section]).sections[section.name]
    lines = [line for line in reading.require().splitlines() if not line.startswith(OWN)]
    assert sorted(line.rstrip() for line in lines) == wanted


def test_errors_are_no_address(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader complains to stderr of each program where /etc/ld.so.preload is broken."""
    section, _ = CASES["getent"]
    (tmp_path / "getent").write_text(
        "#!/bin/sh\necho 'ERROR: ld.so' >&2\necho '192.0.2.1 STREAM'\n"
    )
    (tmp_path / "getent").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    lines = ask(shell, [section]).sections[section.name].require().splitlines()
    assert "name a 192.0.2.1" in lines
