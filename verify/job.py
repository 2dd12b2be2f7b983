"""The job of a verification: reports a Python and its PyTorch, or runs ranks of an all-reduce.

It runs on nodes, in the environment's Python, 3.6 or newer, with PyTorch 1.8 or newer. A rank
writes a line of JSON for each stage that it has reached, to a file beside this one. The parent of
tries imports PyTorch once, and forks the ranks of each try that its stdin names.
"""

import contextlib
import ctypes
import datetime
import fcntl
import glob
import importlib
import importlib.util
import json
import os
import platform
import re
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import time
import traceback

MARK = "@@gpu-node-verify "
HERE = os.path.dirname(os.path.abspath(__file__))
# What mpirun calls the variables of the other launchers.
OPEN_MPI = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
}
SIOCGIFADDR = 0x8915
# The large tensor is filled with 1 to PATTERN: float32 holds their sums exactly.
PATTERN = 7
MOST_ROUNDS, ROUNDS_SECONDS, BATCHES = 20, 2.0, 4
# A batch of products or copies; the side of a matrix and the bytes of a copy, on a CPU and a GPU.
WORK_SECONDS, LEAST_IDLE = 0.25, 0.5
SIDES, SIZES = (512, 4096), (1 << 26, 1 << 28)
# The parent of tries ends after this time without a line; the controller writes one in between.
QUIET_SECONDS = 60
# How long the other ranks of a try have to report their errors after one has failed.
GRACE_SECONDS = 2
# How much of what a rank prints is reported.
MOST_OUTPUT, MOST_LINES = 8000, 40
SEGMENT = re.compile(r" (/dev/shm/nccl-[A-Za-z0-9_.-]+)$", re.MULTILINE)


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
    sys.stdout.write("\n")
    print_line(found)


def torch_info():
    """Return the version of torch, and how many GPUs it sees."""
    import torch

    seen = torch.cuda.is_available()
    return {
        "torch": torch.__version__,
        "distributed": torch.distributed.is_available(),
        "gpus": torch.cuda.device_count() if seen else 0,
        "nccl": nccl_version(torch),
    }


def nccl_version(torch):
    """Return the version of the libnccl that torch has loaded, else of the one it is built with.

    It is a number such as 2708, from 2.9 on 20900; from PyTorch 1.10 on torch has a tuple.
    """
    try:
        with open("/proc/self/maps") as maps:
            found = [line[line.index("/") :].strip() for line in maps if "/libnccl.so" in line]
        version = (found and loaded_version(found[0])) or torch.cuda.nccl.version()
    except Exception:
        return None
    if isinstance(version, int):
        thousand = 10000 if version >= 10000 else 1000
        version = (version // thousand, version % thousand // 100, version % 100)
    return ".".join(str(part) for part in version if part != "")


def loaded_version(path):
    """Return what a library says that is loaded."""
    version = ctypes.c_int()
    ctypes.CDLL(path).ncclGetVersion(ctypes.byref(version))
    return version.value


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
    """One rank: its arguments, and the folder in which it reports its stages."""

    def __init__(self, arguments, folder=HERE):
        backend, size, seconds, master, port = arguments[:5]
        for name, other in OPEN_MPI.items():
            if name not in os.environ and other in os.environ:
                os.environ[name] = os.environ[other]
        os.environ.setdefault("MASTER_ADDR", master)
        os.environ.setdefault("MASTER_PORT", port)
        self.backend, self.count, self.seconds = backend, max(1, int(size) // 4), int(seconds)
        # Whether its own speed is measured, too.
        self.works = False
        self.rank = int(os.environ["RANK"])
        self.path = os.path.join(folder, "{}.rank".format(self.rank))
        self.log = os.path.join(folder, "{}.nccl".format(self.rank))

    def report(self, stage, **more):
        """Write a stage at once: a rank that is killed has no time for it."""
        line = json.dumps(dict(more, rank=self.rank, stage=stage)) + "\n"
        end = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(end, line.encode())
        finally:
            os.close(end)

    def run(self):
        """Run stage after stage; an error is reported as well."""
        # The default action also ends a rank that hangs in a library.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(self.seconds)
        self.report("started", **surroundings())
        try:
            reduce(self)
        except Exception as error:
            self.report("failed", error=in_a_line(error))
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
        "gloo_ifname": os.environ.get("GLOO_SOCKET_IFNAME"),
        "own_address": address_of(socket.gethostname()),
        "interfaces": interfaces(),
        "speeds": speeds(),
    }


def speeds():
    """Return the bits a second of each interface and InfiniBand port that has a speed."""
    found = {}
    for path in glob.glob("/sys/class/net/*/speed"):
        found[path.split("/")[4]] = number_in(path) * 10**6
    for path in glob.glob("/sys/class/infiniband/*/ports/*/rate"):
        _, _, _, _, device, _, port, _ = path.split("/")
        found["{}:{}".format(device, port)] = number_in(path) * 10**9
    return {name: int(speed) for name, speed in found.items() if speed > 0}


def number_in(path):
    """Return the number that a file begins with; 0 if it has none, as of an interface without."""
    try:
        with open(path) as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


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
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    version = nccl_version(torch) if rank.backend == "nccl" else None
    name = torch.cuda.get_device_name(device) if rank.backend == "nccl" else cpu()
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

    most = min(ROUNDS_SECONDS, rank.seconds / 40)
    seconds = timed(distributed, torch, large.zero_(), device, most)
    distributed.barrier()
    own = worked(torch, device) if rank.works else {}
    rank.report("done", seconds=seconds, bytes=rank.count * 4, ranks=ranks, **own)
    distributed.destroy_process_group()


def cpu():
    """Return the model of the processor."""
    with open("/proc/cpuinfo", errors="replace") as lines:
        models = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return "CPU " + (models or [platform.machine()])[0].strip()


def idle():
    """Return how many seconds the processors of this machine have been idle in all."""
    with open("/proc/stat") as lines:
        fields = lines.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def worked(torch, device):
    """Return the operations a second of a matrix product, and the bytes a second of a copy.

    On a CPU they are those of one thread: several would wait for each other beside other programs.
    """
    torch.set_num_threads(1)
    is_gpu = device.type == "cuda"
    side, size = SIDES[is_gpu], SIZES[is_gpu]
    # The power that a product takes depends on what is in the matrix.
    matrix = torch.rand((side, side), device=device).to(torch.half if is_gpu else torch.float)
    memory = torch.zeros(size, dtype=torch.uint8, device=device)
    copy = torch.zeros_like(memory)

    def rate(work):
        def seconds():
            count, start, used, spare = 0, time.time(), time.process_time(), idle()
            while count == 0 or time.time() < start + WORK_SECONDS:
                work()
                if is_gpu:
                    torch.cuda.synchronize()
                count += 1
            taken = time.time() - start
            # Where no processor was idle, others delayed it: what it has used itself counts.
            if not is_gpu and idle() - spare < LEAST_IDLE * taken:
                taken = time.process_time() - used
            return max(taken / count, 1e-9)

        work()
        return 1 / min(seconds(), seconds())

    return {
        "product": rate(lambda: torch.mm(matrix, matrix)) * 2 * side**3,
        "memory": rate(lambda: copy.copy_(memory)) * size,
    }


def timed(distributed, torch, tensor, device, most):
    """Return the seconds that one all-reduce of a tensor takes on the slowest rank.

    It is repeated for `most` seconds; the quickest of some batches counts.
    """

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

    first = rounds(1)
    count = max(1, min(MOST_ROUNDS, int(most / first)))
    # What else runs on a node makes some of them slow.
    batches = min(BATCHES, count)
    return min([first] + [rounds(count // batches) for _ in range(batches)])


def used(rank):
    """Return the addresses of this rank's connections, and the lines about them in NCCL's log."""
    try:
        with open(rank.log, errors="replace") as lines:
            log = [line.strip() for line in lines if re.search(r" Using |OOB|NET/", line)]
    except OSError:
        log = []
    return {"connections": connections(), "nccl_log": log[:20]}


def connections():
    """Return local address, port, remote address, port of each connection of this process."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # it is closed, no socket, or not connected
            own = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, fileno=int(number))
            try:
                if own.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == socket.IPPROTO_TCP:
                    found.append(end(own.getsockname()) + end(own.getpeername()))
            finally:
                own.detach()
    return sorted(found)


def end(name):
    """Return address and port of a socket's name: IPv4 within IPv6 is IPv4."""
    return [name[0].replace("::ffff:", ""), name[1]]


def interfaces():
    """Return the IPv4 address of each interface; "" of one that has none."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        for _, name in socket.if_nameindex():
            found[name] = ""
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(query, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


class Tries:
    """The tries on this node: their ranks are forks of this process.

    It does not use CUDA: a fork of a process that does cannot use it.
    """

    def __init__(self):
        self.running = []

    def serve(self):
        """Begin each try of stdin, a line each, and print a line for each that ends."""
        importlib.import_module("torch.distributed")
        print_line({"ready": True})
        rest, quiet = b"", time.time() + QUIET_SECONDS
        while time.time() < quiet:
            if select.select([0], [], [], 0.05)[0]:
                read = os.read(0, 1 << 16)
                if not read:
                    break
                quiet = time.time() + QUIET_SECONDS
                lines = (rest + read).split(b"\n")
                rest = lines.pop()
                self.running += [Try(json.loads(line.decode())) for line in lines if line.strip()]
            self.running = [each for each in self.running if not each.has_ended()]
        for each in self.running:
            each.kill()


class Try:
    """A try: this node's ranks of it, by process, and when they are killed."""

    def __init__(self, given):
        self.given, self.codes = given, {}
        self.folder = os.path.join(HERE, "try-{}".format(given["id"]))
        os.mkdir(self.folder)
        self.end = time.time() + given["seconds"]
        self.ranks = {self.fork(local): given["first"] + local for local in range(given["ranks"])}

    def fork(self, local):
        """Start a rank in a process group of its own; return its process."""
        pid = os.fork()
        # The parent and the child: neither may be late.
        os.setpgid(pid, 0)
        if pid:
            return pid
        code = 1
        try:
            rank = self.given["first"] + local
            log = os.open(self.path(rank, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            # Its own limit is later: the parent finds NCCL's segments of ranks that it kills.
            given = dict(self.given, seconds=self.given["seconds"] + GRACE_SECONDS)
            names = ("backend", "size", "seconds", "master", "port")
            words = [str(given[name]) for name in names]
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(local))
            os.environ.update(WORLD_SIZE=str(self.given["world"]))
            os.environ.update(MASTER_ADDR=words[3], MASTER_PORT=words[4])
            made = Rank(words, self.folder)
            made.works = self.given["works"]
            made.run()
            code = 0
        except SystemExit:
            pass
        except BaseException:
            traceback.print_exc()
        finally:
            # Without the ends of libraries, which may hang.
            sys.stderr.flush()
            os._exit(code)

    def path(self, rank, kind):
        """Return a rank's file."""
        return os.path.join(self.folder, "{}.{}".format(rank, kind))

    def has_ended(self):
        """Reap ranks; when all have ended or the time is over, print what they reported."""
        for pid in list(self.ranks):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                kill_group(pid)
                code = self.codes[self.ranks.pop(pid)] = int(status != 0)
                self.end = min(self.end, time.time() + GRACE_SECONDS) if code else self.end
        if self.ranks and time.time() < self.end:
            return False
        self.kill()
        lines = [line for rank in sorted(self.codes) for line in self.output(rank)]
        print_line({"id": self.given["id"], "output": "\n".join(lines)})
        shutil.rmtree(self.folder)
        return True

    def kill(self):
        """Kill the ranks that are left, and remove NCCL's segments, which they leave behind."""
        segments = set()
        for pid in self.ranks:
            with open("/proc/{}/maps".format(pid), errors="replace") as maps:
                segments.update(SEGMENT.findall(maps.read()))
            kill_group(pid)
        for pid, rank in self.ranks.items():
            os.waitpid(pid, 0)
            self.codes[rank] = 1
        self.ranks = {}
        for path in segments:
            if os.path.exists(path) and not os.path.islink(path):
                os.unlink(path)

    def output(self, rank):
        """Return what a rank reported, its exit status, and the end of what it printed."""
        reported = read_end(self.path(rank, "rank"), 1 << 20)
        printed = read_end(self.path(rank, "log"), MOST_OUTPUT)[-MOST_LINES:]
        lines = ["rank " + line for line in reported]
        lines.append("exit {} {}".format(rank, self.codes[rank]))
        return lines + ["log {} {}".format(rank, line) for line in printed]


def kill_group(leader):
    """Kill a rank and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def read_end(path, most):
    """Return the last lines of a file, which have at most `most` bytes; none if it is missing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - most))
            lines = file.read(most).decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    return [line for line in lines if line]


def print_line(answer):
    """Print an answer as a line that starts with the mark."""
    sys.stdout.write(MARK + json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # DeepSpeed puts its own --local_rank before or after our arguments.
    words = [word for word in sys.argv[1:] if not word.startswith("--local")]
    if words[0] == "look":
        look(words[1], words[2:])
    elif words[0] == "tries":
        Tries().serve()
    else:
        Rank(words[1:]).run()
