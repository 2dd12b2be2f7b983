"""The section on Secure Boot, in each kind of sh; firmware and mokutil are stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.secure_boot import SECTIONS, SecureBoot, parse_secure_boot
from gpu_node.facts.probe.protocol import Unreadable
from tests.node_scripts import run_apart

MOK, DKMS = "/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub"
# A stand-in for mokutil: $HERE/enrolled lists the keys that the firmware knows.
MOKUTIL = """#!/bin/sh
[ "$1" = --test-key ] || exit 1
grep -qxF "$2" {folder}/enrolled && {{ echo "$2 is already enrolled"; exit 1; }}
echo "$2 is not enrolled"
"""


@pytest.fixture
def machine(tmp_path: Path, programs: Path) -> Path:
    """A machine with UEFI and Secure Boot, a system's name, and no key."""
    for folder in (programs, tmp_path / "lib", tmp_path / "etc"):
        folder.mkdir()
    (tmp_path / "os-release").write_text("ID=ubuntu\nID_LIKE=debian\n")
    (tmp_path / "enrolled").touch()
    (tmp_path / "variable").write_bytes(b"\6\0\0\0\1")
    return tmp_path


def has(machine: Path, *keys: str, mokutil: bool = True) -> None:
    """Have keys, and a mokutil to ask about them."""
    for key in keys:
        path = machine / "lib" / Path(key).relative_to("/var/lib")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    if mokutil:
        program = machine / "bin" / "mokutil"
        program.write_text(MOKUTIL.format(folder=machine))
        program.chmod(0o755)


def asked(machine: Path, shell: str) -> SecureBoot:
    """What the section finds there."""
    variable = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    before = (
        "mount -t tmpfs none /sys/firmware\nmkdir -p /sys/firmware/efi/efivars\n"
        f"cp {machine / 'variable'} {variable}\n"
        f"mount --bind {machine / 'lib'} /var/lib\n"
        f"mount --bind {machine / 'os-release'} /etc/os-release\n"
    )
    (section,) = SECTIONS
    done = run_apart(StringCommand(section.command), shell, before)
    assert (done.code, done.err) == (0, "")
    return parse_secure_boot(done.out)


def test_the_key_of_ubuntu(machine: Path, shell: str) -> None:
    """That of shim-signed comes first there, and last elsewhere."""
    has(machine, MOK, DKMS)
    (machine / "enrolled").write_text(f"{MOK}\n")
    found = asked(machine, shell)
    assert (found.state, found.enrolled) == ("on", True)
    assert list(found.keys.items()) == [(MOK, True), (DKMS, False)]
    (machine / "os-release").write_text("ID=rocky\n")
    assert asked(machine, shell).enrolled is False


def test_without_mokutil(machine: Path, shell: str) -> None:
    """Without mokutil a key is neither enrolled nor not; without a key there is nothing to ask."""
    assert asked(machine, shell) == SecureBoot(state="on", enrolled=None)
    has(machine, DKMS, mokutil=False)
    assert asked(machine, shell).keys == {DKMS: None}


def test_a_variable_that_says_nothing(machine: Path, shell: str) -> None:
    """It exists: the answer must not be that the firmware has none."""
    (machine / "variable").write_bytes(b"")
    with pytest.raises(Unreadable):
        asked(machine, shell)


def test_it_is_off(machine: Path, shell: str) -> None:
    """Then no key matters."""
    (machine / "variable").write_bytes(b"\6\0\0\0\0")
    has(machine, DKMS)
    assert asked(machine, shell) == SecureBoot(state="off", enrolled=None)
