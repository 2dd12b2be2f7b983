"""What the launching node starts, for each kind of launcher: pure, words in and a script out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from facts.cluster import SSH_PORT, Peer
from verify.nodes import folder, unwritten

TORCHRUN = "torchrun"
# torch.distributed.run came with PyTorch 1.9.
_HAS_RUN = (1, 9)
# How long the others have to say what they saw after the first has failed.
_GRACE_SECONDS = 5
_CONNECT_SECONDS = 10
# A login that asks is a login that fails: nobody is there to answer. A shared connection of the
# user's would outlive the run.
_SSH = (
    *("ssh", "-n", "-x", "-a", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}"),
    *("-o", "ControlMaster=no", "-o", "ControlPath=none"),
)

# Each command's words go to a file, and its exit status to another one, which appears whole.
_LAUNCH = """
cd DIR || exit 1
PDSH_SSH_ARGS_APPEND="${PDSH_SSH_ARGS_APPEND-} -o BatchMode=yes"; export PDSH_SSH_ARGS_APPEND
go() {
  number=$1
  shift
  { "$@" >"log.$number" 2>&1 </dev/null
    echo "$?" >"part.$number"; mv "part.$number" "exit.$number"; } >/dev/null 2>&1 </dev/null &
}
COMMANDS
end=$(($(date +%s) + SECONDS)) failed=
while now=$(date +%s); [ "$now" -lt "$end" ]; do
  running=
  for number in NUMBERS; do
    if [ ! -e "exit.$number" ]; then running=yes
    elif [ "$(cat "exit.$number")" != 0 ]; then failed=${failed:-$now}
    fi
  done
  [ -n "$running" ] || break
  [ -z "$failed" ] || [ "$now" -lt "$((failed + GRACE))" ] || break
  sleep 0.2 2>/dev/null || sleep 1
done
"""


@dataclass(frozen=True)
class Seat:
    """A node of the run: its Python, its PyTorch's version, and how many ranks start there."""

    peer: Peer
    python: str
    torch: str
    ranks: int


@dataclass(frozen=True)
class Start:
    """A run: the launching node is the first of `seats`; `size` in bytes, `user` "" or a name."""

    run: str
    kind: str
    seats: tuple[Seat, ...]
    port: int
    backend: str
    size: int
    seconds: int
    is_root: bool = False

    @property
    def ranks(self) -> int:
        """How many ranks there are in all."""
        return sum(seat.ranks for seat in self.seats)

    @property
    def master(self) -> str:
        """The name that all ranks meet at."""
        return self.seats[0].peer.name


def script(start: Start) -> str:
    """Return the sh script for the launching node; it ends when the run has, or its time."""
    made = list(commands(start))
    calls = "\n".join(f"go {number} {shlex.join(argv)}" for number, argv in enumerate(made))
    words = {
        "DIR": folder(start.run),
        "SECONDS": str(start.seconds),
        "NUMBERS": " ".join(map(str, range(len(made)))),
        "GRACE": str(_GRACE_SECONDS),
        # Last: a path in it may hold one of the words.
        "COMMANDS": _hostfile(start) + calls,
    }
    text = _LAUNCH
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def kind_of(start: Start) -> str:
    """Return the launcher that starts a run: one node alone needs none that reaches others."""
    return start.kind if start.kind in _COMMANDS and len(start.seats) > 1 else TORCHRUN


def commands(start: Start) -> Iterator[list[str]]:
    """Yield what the launching node runs, side by side; torchrun's are one a node, in order."""
    yield from _COMMANDS[kind_of(start)](start)


def _torchrun(start: Start) -> Iterator[list[str]]:
    for number, seat in enumerate(start.seats):
        argv = _limited(start, [seat.python, *_agent(start, seat, number), *_job(start)])
        if len(start.seats) == 1:
            yield argv
        else:
            yield [*_SSH, *_port(seat.peer), seat.peer.name, shlex.join(argv)]


def _agent(start: Start, seat: Seat, number: int) -> list[str]:
    """torchrun on one node, or what it was called before PyTorch 1.9."""
    where = ["--nnodes", len(start.seats), "--node_rank", number, "--nproc_per_node", seat.ranks]
    where += ["--master_addr", start.master, "--master_port", start.port]
    words = list(map(str, where))
    if _version(seat.torch) < _HAS_RUN:
        return ["-m", "torch.distributed.launch", "--use_env", *words]
    # torch 1.13 on Python 3.11 cannot read its own default of redirects and tee, 0.
    written = ["--redirects", "1", "--tee", "1", "--log_dir", f"{folder(start.run)}/log"]
    # Its own limit is ten minutes.
    meeting = ["--rdzv_conf", f"timeout={max(5, start.seconds * 6 // 10)}"]
    return ["-m", "torch.distributed.run", *words, *meeting, *written]


def _deepspeed(start: Start) -> Iterator[list[str]]:
    first = start.seats[0]
    words = [first.python, "-m", "deepspeed.launcher.runner", "--hostfile", _hosts(start)]
    words += ["--master_addr", start.master, "--master_port", str(start.port)]
    ports = {seat.peer.port for seat in start.seats} - {SSH_PORT}
    words += ["--ssh_port", str(ports.pop())] if ports else []
    yield _limited(start, [*words, *_job(start)])


def _mpirun(start: Start) -> Iterator[list[str]]:
    places = ",".join(f"{seat.peer.name}:{seat.ranks}" for seat in start.seats)
    words = ["mpirun", *(["--allow-run-as-root"] if start.is_root else [])]
    words += ["-np", str(start.ranks), "-H", places, "-wdir", folder(start.run)]
    for name, value in unwritten(folder(start.run)).items():
        words += ["-x", f"{name}={value}"]
    yield _limited(start, [*words, "--bind-to", "none", start.seats[0].python, *_job(start)])


_COMMANDS = {
    TORCHRUN: _torchrun,
    "deepspeed": _deepspeed,
    "mpirun": _mpirun,
}


def _job(start: Start) -> list[str]:
    given = [start.backend, start.size, start.seconds, start.master, start.port]
    return [f"{folder(start.run)}/job.py", "reduce", *map(str, given)]


def _limited(start: Start, argv: Sequence[str]) -> list[str]:
    return ["sh", f"{folder(start.run)}/start.sh", str(start.seconds + 10), *argv]


def _hosts(start: Start) -> str:
    return f"{folder(start.run)}/hostfile"


def _hostfile(start: Start) -> str:
    """DeepSpeed's list of nodes, and of what they are given, where it is who starts them."""
    if kind_of(start) != "deepspeed":
        return ""
    lines = "".join(f"{seat.peer.name} slots={seat.ranks}\n" for seat in start.seats)
    given = "".join(f"{name}={value}\n" for name, value in unwritten(folder(start.run)).items())
    return (
        f"printf '%s' {shlex.quote(lines)} >hostfile\n"
        f"printf '%s' {shlex.quote(given)} >.deepspeed_env\n"
    )


def _port(peer: Peer) -> list[str]:
    return [] if peer.port == SSH_PORT else ["-p", str(peer.port)]


def _version(text: str) -> tuple[int, ...]:
    """The first two numbers of PyTorch's version; a development build's is new enough."""
    parts = text.split(".")[:2]
    return tuple(int(part) if part.isdigit() else 99 for part in parts)
