"""The sections on kernels and on dkms, in each kind of sh; modinfo and dkms are stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.kernels import SECTIONS, Failed, Module, parse_dkms, parse_kernels
from tests.node_scripts import run_apart

KERNELS, _, DKMS = SECTIONS
# Recorded on Debian 12.
LOG = """DKMS make.log for nvidia-tesla-470-470.256.02 for kernel 6.12.95+deb12-cloud-amd64 (x86_64)
Sun Nov 29 05:02:50 UTC 2026
cc1: some warnings being treated as errors
/build/nvidia/os-mlock.c:23:12: error: implicit declaration of function
/build/nvidia/os-mlock.c:24:12: error: another one
"""
# Both packages of Debian's are installed, and update-alternatives chooses one.
MODINFO = """#!/bin/sh
case $3 in
  nvidia-current) license=NVIDIA ;;
  nvidia-current-open) license='Dual MIT/GPL' ;;
  *) exit 1 ;;
esac
printf '%s\\n' "filename: /lib/modules/K/updates/dkms/$3.ko" "version: 535.261.03" \\
  "license: $license"
"""


@pytest.mark.parametrize("name", ["nvidia-current", "nvidia-current-open"])
def test_the_module_that_modprobe_would_load(programs: Path, shell: str, name: str) -> None:
    """Of several that are built, modprobe's own settings name one."""
    folder = programs.parent
    programs.mkdir()
    (programs / "modinfo").write_text(MODINFO)
    (programs / "modinfo").chmod(0o755)
    (folder / "conf").mkdir()
    (folder / "conf" / "nvidia.conf").write_text(f"install nvidia modprobe -i {name} $OPTS\n")
    (folder / "modules" / "6.1.0-56-amd64").mkdir(parents=True)
    (folder / "modules" / "6.1.0-56-amd64" / "modules.dep").touch()
    for each in ("nvidia-current", "nvidia-current-open"):
        (folder / "src" / f"{each}-535.261.03").mkdir(parents=True)
    mounts = {"conf": "/etc/modprobe.d", "modules": "/lib/modules", "src": "/usr/src"}
    made = f"mkdir -p {' '.join(mounts.values())}\n"
    before = [f"mount --bind {folder / each} {place}" for each, place in mounts.items()]
    done = run_apart(StringCommand(KERNELS.command), shell, made + "\n".join(before))
    assert (done.code, done.err) == (0, "")
    (kernel,) = parse_kernels(done.out).installed
    assert isinstance(kernel.module, Module)
    assert (kernel.module.license == "NVIDIA") == (name == "nvidia-current")


def test_a_build_that_failed(programs: Path, shell: str) -> None:
    """dkms leaves its log in the folder of the build; of a log of another form nothing is known."""
    folder = programs.parent
    programs.mkdir()
    (programs / "dkms").write_text("#!/bin/sh\nexit 1\n")
    (programs / "dkms").chmod(0o755)
    for name, text in {"tesla-470/470.256.02": LOG, "current/535.216.03": "error: odd\n"}.items():
        build = folder / "dkms" / f"nvidia-{name}" / "build"
        build.mkdir(parents=True)
        (build / "make.log").write_text(text)
    made = f"mkdir -p /var/lib/dkms\nmount --bind {folder}/dkms /var/lib/dkms"
    done = run_apart(StringCommand(DKMS.command), shell, made)
    assert (done.code, done.err) == (0, "")
    error = "/build/nvidia/os-mlock.c:23:12: error: implicit declaration of function"
    failed = Failed(version="470.256.02", kernel="6.12.95+deb12-cloud-amd64", error=error)
    assert parse_dkms(done.out).failed == (failed,)
