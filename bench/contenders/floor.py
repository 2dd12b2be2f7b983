"""The floor: OpenSSH's own client sends the script to all nodes, and stores what they print.

    python -S floor.py LIST SCRIPT FOLDER OPTION...

LIST has a line for each node, its name and its address; what NODE prints is FOLDER/NODE.txt, which
must be whole. It imports only what Python has.
"""

import subprocess
import sys
import time
from collections import deque

PARALLEL = 50
# The end of an answer.
DONE = b"\n@@gpu-node done\n"


def main(nodes: str, script: str, folder: str, *options: str) -> int:
    """Log in to at most `PARALLEL` nodes at a time; return 1 if one fails."""
    with open(nodes) as read:
        left = deque(line.split() for line in read)
    running: dict[str, subprocess.Popen[bytes]] = {}
    failed = False
    while left or running:
        while left and len(running) < PARALLEL:
            name, address = left.popleft()
            running[name] = start(name, address, script, f"{folder}/{name}.txt", options)
        ended = [name for name, process in running.items() if process.poll() is not None]
        for name in ended:
            code = running.pop(name).returncode
            failed = code != 0 or not is_whole(f"{folder}/{name}.txt") or failed
        if not ended:
            time.sleep(0.002)
    return int(failed)


def start(
    name: str, address: str, script: str, answer: str, options: tuple[str, ...]
) -> "subprocess.Popen[bytes]":
    """Start ssh to a node."""
    with open(script, "rb") as sent, open(answer, "wb") as written:
        return subprocess.Popen(
            ["ssh", *options, address, f"sh -s {name}"],
            stdin=sent,
            stdout=written,
            close_fds=False,
        )


def is_whole(answer: str) -> bool:
    """Whether an answer has its end."""
    with open(answer, "rb") as read:
        read.seek(-min(len(DONE), read.seek(0, 2)), 2)
        return read.read() == DONE


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
