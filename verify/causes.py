"""Causes: what is wrong with a Python before the start, and what stopped a run that began."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence

from verify.nodes import SAY_PYTHON, Look, Told
from verify.plan import TORCHRUN, Seat, Start, kind_of
from verify.ranks import STAGES, Rank

_PORTS = (
    "a firewall that blocks ports between the nodes (a job listens on ports that it chooses "
    "itself), or the wrong interface: look at the network of gpu-node drift"
)
# What each stage waits for, and what mostly keeps it from coming.
_NEXT = {
    "started": "torch was not imported in time: a slow disk, or a package that hangs",
    "imported": "it did not reach {master} at port {port}: a firewall, or a name that leads "
    "elsewhere",
    "connected": f"it found the others and could form no group with them: {_PORTS}",
    "init": f"the first all-reduce did not end: {_PORTS}; or torch or NCCL of different versions",
    "small": "the large all-reduce did not end: an MTU that the way between the nodes does not "
    "take, /dev/shm too small, or a link so slow that --timeout is too short",
    "large": "the all-reduces were right and the measuring did not end: a larger --timeout",
}
_WORDS = re.compile(r"[A-Za-z]")
# What a program says on its way, and no reason.
_CHATTER = re.compile(r"^\s*File |^\s*\^|^Traceback|\bWARNING\b|\bINFO\b|^\*+$|^\s+|^[WI]\d{4,8} ")


def wrong_python(name: str, look: Look) -> str:
    """Say what keeps a node's Python from being one of a job; "" if nothing does."""
    if look.error is not None:
        return f"{name}: {look.python} cannot import torch: {look.error}; {SAY_PYTHON}"
    if not look.distributed:
        return f"{name}: torch {look.torch} of {look.python} was built without torch.distributed"
    return ""


def wrong_gpus(name: str, look: Look, count: int | None) -> str:
    """Say that torch sees other GPUs than the inventory's `count`, None where it says none."""
    if count is None or look.gpus == count:
        return ""
    sees = f"{look.gpus or 'no'} GPU{'s'[: look.gpus != 1]}"
    return (
        f"{name}: torch {look.torch} of {look.python} sees {sees}, the inventory has gpu.count "
        f"{count}: look with gpu-node drift (a torch for CPUs alone? CUDA_VISIBLE_DEVICES? the "
        "driver?), or give --backend gloo to leave the GPUs out"
    )


def wrong_launcher(kind: str, looks: Mapping[str, Look]) -> Iterator[str]:
    """Say what keeps DeepSpeed's launcher or mpirun from starting the same Python everywhere."""
    if kind == TORCHRUN:
        return
    pythons = {name: look.python for name, look in looks.items()}
    if len(set(pythons.values())) > 1:
        told = ", ".join(f"{name} {python}" for name, python in pythons.items())
        yield f"{kind} starts one path on all nodes, and their Pythons differ: {told}; {SAY_PYTHON}"
    for name, look in looks.items():
        if kind == "deepspeed" and not look.deepspeed:
            yield (
                f"{name}: {look.python} has no deepspeed, and the inventory says launcher: "
                f"deepspeed; install it there, or {SAY_PYTHON}"
            )


def wrong_names(first: str, looks: Mapping[str, Look]) -> Iterator[str]:
    """Say where a name leads to the node that asks, or nowhere: of the first, and from there."""
    pairs = [(name, first) for name in looks] + [(first, name) for name in looks]
    for here, other in pairs:
        if here == other:
            continue
        address = looks[here].names.get(other)
        if address is None:
            yield f"{here}: nobody knows the name {other} there; {_MEND_NAMES}"
        elif is_loopback(address):
            yield f"{here}: {other} is {address} there, which is {here} itself; {_MEND_NAMES}"


_MEND_NAMES = "ssh: {mesh: true} in the inventory and a deploy put it into /etc/hosts"


def is_loopback(address: str) -> bool:
    """Whether an address leads to the node itself and nowhere else."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def different(looks: Mapping[str, Look]) -> Iterator[str]:
    """Say in which versions the nodes differ: of these a job hangs or breaks off."""
    for what, values in (
        ("torch", {name: look.torch for name, look in looks.items()}),
        ("NCCL", {name: look.nccl for name, look in looks.items()}),
    ):
        if len(set(values.values())) > 1:
            told = ", ".join(f"{name} {value or 'none'}" for name, value in values.items())
            yield f"{what} differs: {told}"


def stopped(start: Start, ranks: Sequence[Rank], ended: Mapping[str, Told]) -> Iterator[str]:
    """Say what stopped a run: errors of ranks, ranks that never came, stages not passed.

    `ended` is what the nodes told at the end.
    """
    for rank in ranks:
        if rank.error:
            yield f"{rank.node}: rank {rank.number} failed {_after(rank)}: {rank.error}"
    yield from _missing(start, ranks, ended)
    waiting = [rank for rank in ranks if not rank.error and rank.stage != STAGES[-1]]
    for stage in STAGES[:-1]:
        those = [rank for rank in waiting if rank.stage == stage]
        if those:
            who = ", ".join(f"{rank.number} ({rank.node})" for rank in those)
            why = _NEXT[stage].format(master=start.master, port=start.port)
            yield f"rank {who} came as far as '{stage}' within {start.seconds} s: {why}"
    for rank in waiting:
        own = rank.says("own_address")
        if start.backend == "gloo" and own and is_loopback(own):
            yield (
                f"{rank.node}: its own name is {own} there, and that address is what gloo tells "
                f"the others; {_MEND_NAMES}"
            )


def _after(rank: Rank) -> str:
    return f"after '{rank.stage}'"


def _missing(start: Start, ranks: Sequence[Rank], ended: Mapping[str, Told]) -> Iterator[str]:
    """Say of each node where no rank began what its launcher said."""
    launching = ended.get(start.master, Told())
    apart = kind_of(start) != TORCHRUN
    for number, seat in enumerate(start.seats):
        if any(rank.node == seat.peer.name for rank in ranks):
            continue
        logged = 0 if apart else number
        yield f"{seat.peer.name}: no rank started: {_why(start, seat, launching, logged)}"


def _why(start: Start, seat: Seat, launching: Told, number: int) -> str:
    code, said = launching.exits.get(number), last_words(launching.logs.get(number, ()))
    if code is None:
        ended = f"{kind_of(start)} there did not end within {start.seconds} s"
    elif code == 255:
        ended = f"{start.master} could not log in to {seat.peer.name}, or lost it"
    else:
        ended = f"{kind_of(start)} ended with {code}"
    return f"{ended}: {said}" if said else f"{ended}, without a word"


def last_words(lines: Sequence[str]) -> str:
    """Return the last line that tells a reason; of a traceback that is its end."""
    told = [line.strip() for line in lines if _WORDS.search(line)]
    reasons = [line.strip() for line in lines if _WORDS.search(line) and not _CHATTER.search(line)]
    return (reasons or told or [""])[-1][:300]
