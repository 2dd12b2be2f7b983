"""A node of a test that answers every command alike, and what a command here costs."""

from __future__ import annotations

import subprocess
import sys

from paramiko import Channel

from tests.commands import REPOSITORY, environment


def reply(channel: Channel, data: bytes, code: int = 0) -> None:
    """Answer and end."""
    channel.sendall(data)
    channel.send_exit_status(code)
    channel.close()


# The nodes are greenlets of this process, in which gevent waits for its children.
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def measured(*words: object) -> tuple[subprocess.CompletedProcess[str], float, int]:
    """Run a command; return its end, the seconds of a processor, and the memory in KiB."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, words)],
        cwd=REPOSITORY,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    *_, seconds, memory = done.stderr.split()
    return done, float(seconds), int(memory)
