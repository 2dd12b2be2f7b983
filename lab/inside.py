"""Runs scripts in a node's container, as `podman exec` does, at a tenth of its cost."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpu_node.lab import disks, podman
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import SYSTEM_PATH, not_installed, sudo

ENV = ("HOME=/root", f"PATH={SYSTEM_PATH}")
SPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")
# After a restart of the container this number may belong to any process of the machine.
ANOTHER = "gpu-node-lab: this is not the node's process"
GUARD = f'[ "/proc/$1/root" -ef "$2" ] || {{ echo "{ANOTHER}" >&2; exit 125; }}; shift 2; exec "$@"'
LIMITS = {
    "Max open files": "nofile",
    "Max locked memory": "memlock",
    "Max processes": "nproc",
    "Max core file size": "core",
}
# The first process of each container that podman was asked about.
_pids: dict[str, int] = {}


def run(
    container: str, name: str, script: str, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a POSIX sh script as root, with the rights and limits of the container's first process.

    A node that does not run is a LabError. Processes that the script leaves are not waited for.
    """
    for pid in _candidates(container):
        command = _command(pid, script)
        if command:
            root = str(disks.root(name))
            guarded = [*sudo(), "/bin/sh", "-c", GUARD, "sh", str(pid), root, *command]
            done = _run(guarded, name, timeout)
            if not done.stderr.startswith(ANOTHER):
                return done
        _pids.pop(container, None)
    raise LabError(f"{name}: found it not running; next: gpu-node lab up")


def pid(container: str) -> int:
    """Ask podman for the container's first process, and store it."""
    _pids[container] = podman.pid(container)
    return _pids[container]


def _candidates(container: str) -> Iterator[int]:
    """The stored process, then the one that podman reports."""
    if container in _pids:
        yield _pids[container]
    yield pid(container)


def _command(pid: int, script: str) -> list[str]:
    """Enter a process's namespaces with its limits and rights; empty if it has ended."""
    try:
        limits = Path(f"/proc/{pid}/limits").read_text()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return []
    enter = ["nsenter", "--target", str(pid), *SPACES, "--"]
    rights = ["setpriv", f"--bounding-set={bounding_set(status)}"]
    shell = ["env", "-i", *ENV, "/bin/sh", "-c", script]
    # sudo asks for a password on the terminal, which only the script itself must not have.
    return ["setsid", "--wait", "prlimit", *limit_options(limits), *enter, *rights, *shell]


def limit_options(limits: str) -> list[str]:
    """prlimit's options for the text of /proc/PID/limits: --nofile=1024:20000."""
    found = []
    for line in limits.splitlines():
        for words, option in LIMITS.items():
            if line.startswith(words):
                soft, hard = line.removeprefix(words).split()[:2]
                found.append(f"--{option}={soft}:{hard}")
    return found


def bounding_set(status: str) -> str:
    """setpriv's value for the CapBnd line of /proc/PID/status: -all,+cap_0,+cap_1."""
    given = next(line for line in status.splitlines() if line.startswith("CapBnd:"))
    bits = int(given.split()[1], 16)
    numbers = [number for number in range(bits.bit_length()) if bits >> number & 1]
    return ",".join(["-all", *(f"+cap_{number}" for number in numbers)])


def _run(command: list[str], name: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """`lab.machine.run` with files instead of pipes: a daemon may keep its output open."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=timeout,
                check=False,
            )
        except FileNotFoundError:
            raise not_installed(command[0]) from None
        except subprocess.TimeoutExpired:
            raise LabError(f"{name}: a script did not end within {timeout:g} s") from None
        outputs = []
        for file in (out, err):
            file.seek(0)
            outputs.append(file.read().decode("utf-8", "replace"))
    return subprocess.CompletedProcess(command, done.returncode, *outputs)
