"""Calls cuInit of a libcuda, for at most 10 s, and prints its result; Python 2.7, or 3.

A separate process calls it: one that hangs in the kernel cannot be ended, and is left behind.
"""

import sys

# `-c` puts the working directory in front.
sys.path = [folder for folder in sys.path if folder]

import ctypes
import os
import select
import signal

SECONDS = 10
DEVICES = ("/dev/nvidiactl", "/dev/nvidia-uvm")


def called(path):
    """The result of cuInit, in words."""
    try:
        return "code %d" % ctypes.CDLL(path).cuInit(0)
    except Exception:  # whatever the library is
        return "unusable %s" % sys.exc_info()[1]


def main(path):
    """Print the devices that this user may not open, and the result."""
    lines = ["closed " + device for device in DEVICES if not os.access(device, os.R_OK | os.W_OK)]
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        # One that is left behind must not keep the pipe of the probe open.
        null = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(null, each)
        os.write(send, called(path).encode("ascii", "replace")[:400])
        os._exit(0)
    os.close(send)
    answer = "hangs"
    if select.select([receive], [], [], SECONDS)[0]:
        answer = os.read(receive, 400).decode("ascii")
        if not answer:
            answer = "ended %d" % (os.waitpid(child, 0)[1] & 127)
    else:
        os.kill(child, signal.SIGKILL)
    lines.append(" ".join(answer.split()))
    sys.stdout.write("".join("cuda %s\n" % line for line in lines))
    sys.stdout.flush()
    os._exit(0)


main(sys.argv[1])
