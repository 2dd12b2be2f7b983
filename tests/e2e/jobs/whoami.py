"""What a training process is given: printed by each rank that a launcher starts."""

import os
import resource
import socket


def interface() -> str:
    """What NCCL would read: the environment first, then /etc/nccl.conf."""
    if "NCCL_SOCKET_IFNAME" in os.environ:
        return f"environment:{os.environ['NCCL_SOCKET_IFNAME']}"
    with open("/etc/nccl.conf") as file:
        for line in file:
            name, _, value = line.rstrip("\n").partition("=")
            if name == "NCCL_SOCKET_IFNAME":
                return f"nccl.conf:{value}"
    return "nothing"


memory = os.statvfs("/dev/shm")
soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
found = [interface(), str(soft), str(memory.f_blocks * memory.f_frsize)]
line = ["rank", os.environ["RANK"], socket.gethostname(), *found]
# At once: with python -u, words of ranks that print at one time would mix.
os.write(1, (" ".join(line) + "\n").encode())
