"""dkms.sh over stand-ins: what it advises where the module does not compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import script
from tests.node_scripts import Ended, run_apart

VERSION, KERNEL = "535.154.05", "6.5.0-45-generic"
OPTION = "cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'"
HOLD = "driver: {hold_kernel: true} in the inventory has the newest kernel booted"
UBUNTU = 'CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0"'
RED_HAT = "9.3.1 20200408 (Red Hat 9.3.1-2)"
NEW_PROC = f"Linux version {KERNEL} (b@b) (gcc (GCC) {RED_HAT}, GNU ld version 2.32) #1 SMP"
OLD_PROC = f"Linux version {KERNEL} (b@b) (gcc version {RED_HAT} (GCC) ) #1 SMP"
CLANG = 'CONFIG_CC_VERSION_TEXT="Ubuntu clang version 17.0.6"'


def build(programs: Path, shell: str, **given: str) -> Ended:
    """Build a module: `error` is the compiler's, `config` and `proc` name the kernel's compiler."""
    here = programs.parent
    (here / "bin").mkdir()
    (here / "version").write_text(given.get("proc", f"Linux version {KERNEL} (b) (clang) #1\n"))
    bodies = {
        "dkms": f"""case $1 in
  status) ;;
  add) mkdir -p "$tree/source" ;;
  *) mkdir -p "$tree/build"; echo "{given["error"]}" >"$tree/build/make.log"
     echo 'Error! Bad return status for module build'; exit 10 ;;
esac""",
        "modinfo": "exit 1",
        "uname": f"echo {KERNEL}",
        "gcc": f"echo {given.get('gcc', '11')}",
        "make": "",
        "apt-get": "",
    }
    for name, body in bodies.items():
        (here / "bin" / name).write_text(
            f"#!/bin/sh\ntree=/var/lib/dkms/nvidia/{VERSION}\n{body}\n"
        )
        (here / "bin" / name).chmod(0o755)

    modules = f"/lib/modules/{KERNEL}/build"
    before = [
        "mount -t tmpfs tmpfs /usr/src",
        f"mkdir /usr/src/nvidia-{VERSION}",
        "mount -t tmpfs tmpfs /var/lib",
        "mkdir -p /lib/modules; mount -t tmpfs tmpfs /lib/modules",
        f"mkdir -p {modules}; : >{modules}/Makefile",
        f"echo '{given.get('config', '')}' >{modules}/.config",
        f"mount --bind {here / 'version'} /proc/version",
    ]
    command = script(
        "dkms", source="nvidia", version=VERSION, kernel=KERNEL, allow_reload="no", backups=""
    )
    return run_apart(command, shell, "\n".join(before))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"config": UBUNTU},
            "the kernel was built by gcc 12, and gcc here is 11, which lacks an option: install "
            "gcc-12: apt-get install gcc-12, and run the deploy again; cc: error: unrecognized",
        ),
        ({"proc": NEW_PROC, "gcc": "8"}, "by gcc 9, and gcc here is 8, which lacks an option: "),
        ({"proc": OLD_PROC, "gcc": "4.8.5"}, "by gcc 9, and gcc here is 4.8.5, which lacks"),
    ],
    ids=["settings", "/proc/version", "/proc/version of old kernels"],
)
def test_a_compiler_that_lacks_an_option(
    programs: Path, shell: str, given: dict[str, str], says: str
) -> None:
    """That of the kernel is named beside it; another kernel would not help."""
    done = build(programs, shell, error=OPTION, **given)
    assert done.code == 1
    assert says in done.err
    assert HOLD not in done.err


@pytest.mark.parametrize(
    "given",
    [
        {"error": "nv.c:1:1: error: too few arguments to function", "config": UBUNTU},
        {"error": OPTION, "config": CLANG},
        {"error": OPTION, "config": UBUNTU, "gcc": "12.3.0"},
        {"error": OPTION},
    ],
    ids=["an error of the code", "clang", "the same compiler", "unknown"],
)
def test_a_driver_that_does_not_compile(programs: Path, shell: str, given: dict[str, str]) -> None:
    """Where the compiler is not why, an older kernel is."""
    done = build(programs, shell, **given)
    assert (done.code, HOLD in done.err, "which lacks an option" in done.err) == (1, True, False)
