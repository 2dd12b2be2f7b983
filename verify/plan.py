"""The script of the launching node for each kind of launcher; pure."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_node.facts.probe.peers import SSH_PORT, Peer
from gpu_node.facts.probe.shell import assigned
from gpu_node.facts.ssh.options import STRICT
from gpu_node.inventories.versions import numbers
from gpu_node.verify.nodes import folder, unwritten

TORCHRUN = "torchrun"
# torch.distributed.run came with PyTorch 1.9.
_HAS_RUN = (1, 9)
# How long the other ranks have to report their errors after the first has failed.
_GRACE_SECONDS = 5
_CONNECT_SECONDS = 10
# A login that needs an answer fails: no user is there. A shared connection of the user would
# outlive the run.
_SSH = (
    *("ssh", "-n", *STRICT, "-o", f"ConnectTimeout={_CONNECT_SECONDS}"),
    *("-o", "ControlMaster=no", "-o", "ControlPath=none"),
)

# Each command's output is written to a file, its exit status to a second one, which is renamed.
_BEGIN = """
cd "$dir" || exit 1
PDSH_SSH_ARGS_APPEND="${PDSH_SSH_ARGS_APPEND-} STRICT"; export PDSH_SSH_ARGS_APPEND
# Open MPI's own ssh, before and from release 5 on.
OMPI_MCA_plm_rsh_args="${OMPI_MCA_plm_rsh_args-} STRICT"; export OMPI_MCA_plm_rsh_args
PRTE_MCA_plm_ssh_args="${PRTE_MCA_plm_ssh_args-} STRICT"; export PRTE_MCA_plm_ssh_args
go() {
  number=$1
  shift
  { "$@" >"log.$number" 2>&1 </dev/null
    echo "$?" >"part.$number"; mv "part.$number" "exit.$number"; } >/dev/null 2>&1 </dev/null &
}
""".replace("STRICT", shlex.join(STRICT))
_WAIT = """
end=$(($(date +%s) + seconds)) failed=
while now=$(date +%s); [ "$now" -lt "$end" ]; do
  running=
  for number in $numbers; do
    if [ ! -e "exit.$number" ]; then running=yes
    elif [ "$(cat "exit.$number")" != 0 ]; then failed=${failed:-$now}
    fi
  done
  [ -n "$running" ] || break
  [ -z "$failed" ] || [ "$now" -lt "$((failed + grace))" ] || break
  sleep 0.2 2>/dev/null || sleep 1
done
"""


@dataclass(frozen=True)
class Placement:
    """A node of the run: its Python, its version of PyTorch, and how many ranks start there."""

    peer: Peer
    python: str
    torch: str
    ranks: int


@dataclass(frozen=True)
class Start:
    """A run: the launching node is the first of `placements`; `size` is in bytes."""

    run: str
    kind: str
    placements: tuple[Placement, ...]
    port: int
    backend: str
    size: int
    seconds: int
    is_root: bool = False

    @property
    def ranks(self) -> int:
        """How many ranks there are in all."""
        return sum(placement.ranks for placement in self.placements)

    @property
    def master(self) -> str:
        """The name at which all ranks meet."""
        return self.placements[0].peer.name


def script(start: Start) -> str:
    """Return the sh script for the launching node; it ends with the run or its time limit."""
    made = list(commands(start))
    calls = "".join(f"go {number} {shlex.join(argv)}\n" for number, argv in enumerate(made))
    given = assigned(
        dir=folder(start.run),
        seconds=start.seconds,
        grace=_GRACE_SECONDS,
        numbers=" ".join(map(str, range(len(made)))),
    )
    return f"{given}{_BEGIN}{_hostfile(start)}{calls}{_WAIT}"


def kind_of(start: Start) -> str:
    """Return the launcher of a run: for one node torchrun, which reaches no other node."""
    return start.kind if start.kind in _COMMANDS and len(start.placements) > 1 else TORCHRUN


def commands(start: Start) -> Iterator[list[str]]:
    """Yield the commands that the launching node runs in parallel; for torchrun one a node."""
    yield from _COMMANDS[kind_of(start)](start)


def _torchrun(start: Start) -> Iterator[list[str]]:
    for number, placement in enumerate(start.placements):
        argv = _limited(start, [placement.python, *_agent(start, placement, number), *_job(start)])
        if len(start.placements) == 1:
            yield argv
        else:
            port = placement.peer.port
            options = [] if port == SSH_PORT else ["-p", str(port)]
            yield [*_SSH, *options, placement.peer.name, shlex.join(argv)]


def _agent(start: Start, placement: Placement, number: int) -> list[str]:
    """Return the words of torchrun on one node, or of its predecessor before PyTorch 1.9."""
    words = ["--nnodes", str(len(start.placements)), "--node_rank", str(number)]
    words += ["--nproc_per_node", str(placement.ranks), *_master(start)]
    if numbers(placement.torch) < _HAS_RUN:
        return ["-m", "torch.distributed.launch", "--use_env", *words]
    # torch 1.13 on Python 3.11 cannot read its own default of redirects and tee, 0.
    written = ["--redirects", "1", "--tee", "1", "--log_dir", f"{folder(start.run)}/log"]
    # Its own limit is ten minutes.
    meeting = ["--rdzv_conf", f"timeout={max(5, start.seconds * 6 // 10)}"]
    return ["-m", "torch.distributed.run", *words, *meeting, *written]


def _deepspeed(start: Start) -> Iterator[list[str]]:
    first = start.placements[0]
    hostfile = f"{folder(start.run)}/hostfile"
    words = [first.python, "-m", "deepspeed.launcher.runner", "--hostfile", hostfile]
    words += _master(start)
    ports = {placement.peer.port for placement in start.placements} - {SSH_PORT}
    words += ["--ssh_port", str(ports.pop())] if ports else []
    yield _limited(start, [*words, *_job(start)])


def _mpirun(start: Start) -> Iterator[list[str]]:
    places = ",".join(f"{placement.peer.name}:{placement.ranks}" for placement in start.placements)
    words = ["mpirun", *(["--allow-run-as-root"] if start.is_root else [])]
    words += ["-np", str(start.ranks), "-H", places, "-wdir", folder(start.run)]
    for name, value in unwritten(folder(start.run)).items():
        words += ["-x", f"{name}={value}"]
    yield _limited(start, [*words, "--bind-to", "none", start.placements[0].python, *_job(start)])


_COMMANDS = {TORCHRUN: _torchrun, "deepspeed": _deepspeed, "mpirun": _mpirun}


def _job(start: Start) -> list[str]:
    given = [start.backend, start.size, start.seconds, start.master, start.port]
    return [f"{folder(start.run)}/job.py", "reduce", *map(str, given)]


def _limited(start: Start, argv: Sequence[str]) -> list[str]:
    return ["sh", f"{folder(start.run)}/start.sh", str(start.seconds + 10), *argv]


def _master(start: Start) -> list[str]:
    return ["--master_addr", start.master, "--master_port", str(start.port)]


def _hostfile(start: Start) -> str:
    """Return sh that writes DeepSpeed's hostfile and environment; "" for other launchers."""
    if kind_of(start) != "deepspeed":
        return ""
    lines = "".join(
        f"{placement.peer.name} slots={placement.ranks}\n" for placement in start.placements
    )
    given = "".join(f"{name}={value}\n" for name, value in unwritten(folder(start.run)).items())
    return (
        f"printf '%s' {shlex.quote(lines)} >hostfile\n"
        f"printf '%s' {shlex.quote(given)} >.deepspeed_env\n"
    )
