"""Saves the memory of a running virtual machine to a file, by qemu's monitor."""

import json
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_node.lab.errors import LabError

# With these options qemu reads the monitor's commands from its stdin.
OPTIONS = ["-qmp", "stdio"]
SECONDS = 120


@contextmanager
def stopped(process: subprocess.Popen[bytes], memory: Path) -> Iterator[None]:
    """Write the machine's memory, and keep the machine and its disk still while the body runs."""
    # A monitor that does not answer would block this process forever.
    watch = threading.Timer(SECONDS, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        process.stdout.readline()  # its greeting
        _ask(process, "qmp_capabilities")
        _ask(process, "migrate-set-parameters", **{"max-bandwidth": 1 << 36})
        _ask(process, "migrate", uri=f"exec:cat >{shlex.quote(str(memory))}")
        while (status := _ask(process, "query-migrate")["status"]) != "completed":
            if status in ("failed", "cancelled"):
                raise LabError(f"qemu did not write {memory}: {status}")
            time.sleep(0.1)
        yield
        _ask(process, "cont")
    finally:
        watch.cancel()


def restoring(memory: Path) -> list[str]:
    """Return the options with which qemu continues a saved memory instead of starting the BIOS."""
    return ["-incoming", f"exec:cat {shlex.quote(str(memory))}"]


def _ask(process: subprocess.Popen[bytes], what: str, **arguments: object) -> dict[str, Any]:
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps({"execute": what, "arguments": arguments}).encode() + b"\n")
        process.stdin.flush()
    except OSError:
        raise LabError(f"qemu ended before {what}") from None
    for line in process.stdout:
        answer = json.loads(line)
        if "error" in answer:
            raise LabError(f"qemu's {what} failed: {answer['error']['desc']}")
        if "return" in answer:
            found: dict[str, Any] = answer["return"]
            return found
    raise LabError(f"qemu ended at {what}")
