"""The job of a verification: reports a Python and its PyTorch, or runs one rank of an all-reduce.

It runs on nodes, in the environment's Python, 3.6 or newer, with PyTorch 1.8 or newer. A rank
writes a line of JSON for each stage that it has reached, to a file beside this one.
"""

import datetime
import fcntl
import importlib.util
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
import time

MARK = "@@gpu-node-verify "
HERE = os.path.dirname(os.path.abspath(__file__))
# What mpirun calls the variables of the other launchers.
OPEN_MPI = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
}
SIOCGIFADDR = 0x8915
ESTABLISHED = "01"
# The large tensor is filled with 1 to PATTERN: float32 holds their sums exactly.
PATTERN = 7
MOST_ROUNDS, ROUNDS_SECONDS = 20, 2.0


def look(python, names):
    """Print what this Python has, and the addresses of nodes' names.

    `python` is the path that was called, which may be a wrapper of the real one.
    """
    found = {"python": python, "names": {name: address_of(name) for name in names}}
    found["root"] = os.getuid() == 0
    found["deepspeed"] = importlib.util.find_spec("deepspeed") is not None
    with socket.socket() as free:
        free.bind(("", 0))
        found["port"] = free.getsockname()[1]
    try:
        found.update(torch_info())
    except Exception as error:
        found["error"] = in_a_line(error)
    os.write(1, ("\n" + MARK + json.dumps(found) + "\n").encode())


def torch_info():
    """Return the version of torch, and how many GPUs it sees."""
    import torch

    seen = torch.cuda.is_available()
    return {
        "torch": torch.__version__,
        "distributed": torch.distributed.is_available(),
        "gpus": torch.cuda.device_count() if seen else 0,
        "nccl": nccl_version(torch) if seen else None,
    }


def nccl_version(torch):
    """Return NCCL's version as text; before PyTorch 1.10 it was a number such as 2708."""
    try:
        version = torch.cuda.nccl.version()
    except Exception:
        return None
    if isinstance(version, int):
        version = (version // 1000, version % 1000 // 100, version % 100)
    return ".".join(str(part) for part in version if part != "")


def address_of(name):
    """Return the address that a name has here; None if it does not resolve."""
    try:
        return socket.getaddrinfo(name, None)[0][4][0]
    except OSError:
        return None


def in_a_line(error):
    """Return an error's class and the start of its text."""
    text = " ".join(str(error).split())
    return "{}: {}".format(type(error).__name__, text)[:400]


class Rank:
    """One rank: its arguments, and the file in which it reports its stages."""

    def __init__(self, arguments):
        backend, size, seconds, master, port = arguments[:5]
        for name, other in OPEN_MPI.items():
            if name not in os.environ and other in os.environ:
                os.environ[name] = os.environ[other]
        os.environ.setdefault("MASTER_ADDR", master)
        os.environ.setdefault("MASTER_PORT", port)
        self.backend, self.count, self.seconds = backend, max(1, int(size) // 4), int(seconds)
        self.rank = int(os.environ["RANK"])
        self.local = int(os.environ.get("LOCAL_RANK", 0))
        self.path = os.path.join(HERE, "{}.rank".format(self.rank))
        self.log = os.path.join(HERE, "{}.nccl".format(self.rank))
        self.stage = "nothing"

    def report(self, stage, **more):
        """Write a stage at once: a rank that is killed has no time for it."""
        self.stage = stage
        line = json.dumps(dict(more, rank=self.rank, local_rank=self.local, stage=stage)) + "\n"
        end = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(end, line.encode())
        finally:
            os.close(end)

    def run(self):
        """Run stage after stage; an error is reported with the stage before it."""
        # The default action also ends a rank that hangs in a library.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(self.seconds)
        self.report("started", pid=os.getpid(), host=socket.gethostname(), **surroundings())
        try:
            reduce(self)
        except Exception as error:
            self.report("failed", after=self.stage, error=in_a_line(error))
            sys.exit(1)


def surroundings():
    """Return what the node and the launcher give a rank."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory = os.statvfs("/dev/shm")
    ifname, source = os.environ.get("NCCL_SOCKET_IFNAME"), "environment"
    if not ifname:
        ifname, source = configured("NCCL_SOCKET_IFNAME"), "nccl.conf"
    return {
        "nofile": None if soft == resource.RLIM_INFINITY else soft,
        "shm": memory.f_blocks * memory.f_frsize,
        "ifname": ifname,
        "ifname_from": source if ifname else None,
        "own_address": address_of(socket.gethostname()),
    }


def configured(name):
    """Return a variable's value in NCCL's files; the user's file is read first."""
    own = os.path.expanduser("~/.nccl.conf")
    for path in (os.environ.get("NCCL_CONF_FILE"), own, "/etc/nccl.conf"):
        try:
            with open(path or "", errors="replace") as lines:
                found = [line.rstrip("\n").partition("=") for line in lines]
        except OSError:
            continue
        values = [value for key, _, value in found if key == name]
        if values:
            return values[-1]
    return None


def reduce(rank):
    """Meet the other ranks, and add up a small and a large tensor with them."""
    # NCCL logs there which interfaces it uses.
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET", NCCL_DEBUG_FILE=rank.log)
    import torch
    import torch.distributed as distributed
    from torch.distributed.rendezvous import rendezvous

    limit = datetime.timedelta(seconds=max(5, int(rank.seconds * 0.6)))
    device = torch.device("cpu")
    if rank.backend == "nccl":
        torch.cuda.set_device(rank.local)
        device = torch.device("cuda", rank.local)
    version = nccl_version(torch) if rank.backend == "nccl" else None
    name = torch.cuda.get_device_name(device) if rank.backend == "nccl" else "cpu"
    rank.report("imported", torch=torch.__version__, nccl=version, device=name)

    store, number, ranks = next(rendezvous("env://", timeout=limit))
    rank.report("connected")
    distributed.init_process_group(
        rank.backend, store=store, rank=number, world_size=ranks, timeout=limit
    )
    rank.report("init")

    small = torch.full((1,), float(number + 1), device=device)
    distributed.all_reduce(small)
    if small.item() != ranks * (ranks + 1) / 2:
        raise ValueError("1 to {} make {}".format(ranks, small.item()))
    rank.report("small", **used(rank))

    large = (torch.arange(rank.count, dtype=torch.int32, device=device) % PATTERN + 1).float()
    wanted = large * (ranks * (ranks + 1) / 2)
    large *= number + 1
    distributed.all_reduce(large)
    wrong = int((large != wanted).sum().item())
    if wrong:
        raise ValueError("{} of {} sums are wrong".format(wrong, rank.count))
    del wanted
    rank.report("large")

    seconds = timed(distributed, torch, large.zero_(), device)
    distributed.barrier()
    rank.report("done", seconds=seconds, bytes=rank.count * 4, ranks=ranks)
    distributed.destroy_process_group()


def timed(distributed, torch, tensor, device):
    """Return the seconds that one all-reduce of a tensor takes on the slowest rank."""

    def rounds(count):
        distributed.barrier()
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.time()
        for _ in range(count):
            distributed.all_reduce(tensor)
        if device.type == "cuda":
            torch.cuda.synchronize()
        slowest = torch.tensor([(time.time() - start) / count], device=device)
        distributed.all_reduce(slowest, op=distributed.ReduceOp.MAX)
        return max(float(slowest.item()), 1e-9)

    return rounds(max(1, min(MOST_ROUNDS, int(ROUNDS_SECONDS / rounds(1)))))


def used(rank):
    """Return the addresses of this rank's connections, and the lines about them in NCCL's log."""
    try:
        with open(rank.log, errors="replace") as lines:
            log = [line.strip() for line in lines if re.search(r" Using |OOB|NET/", line)]
    except OSError:
        log = []
    return {"connections": connections(), "interfaces": interfaces(), "nccl_log": log[:20]}


def connections():
    """Return local address, port, remote address, port of each connection of this process."""
    own = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + number)
        except OSError:
            continue
        if target.startswith("socket:["):
            own.add(target[8:-1])
    found = []
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path) as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        found += [
            peer(row[1]) + peer(row[2]) for row in rows if row[3] == ESTABLISHED and row[9] in own
        ]
    return sorted(found)


def peer(text):
    """Return address and port from /proc/net/tcp's form: 32-bit words in host byte order."""
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    raw = struct.pack("={}I".format(len(words)), *words)
    if len(raw) == 16 and raw.startswith(b"\0" * 10 + b"\xff\xff"):
        raw = raw[12:]
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return [socket.inet_ntop(family, raw), int(port, 16)]


def interfaces():
    """Return the IPv4 address of each interface that has one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(query, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


if __name__ == "__main__":
    # DeepSpeed puts its own --local_rank before or after our arguments.
    words = [word for word in sys.argv[1:] if not word.startswith("--local")]
    if words[0] == "look":
        look(words[1], words[2:])
    else:
        Rank(words[1:]).run()
