"""Causes: what is wrong with a Python before the start, and what stopped a run that began."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from verify.nodes import SAY_PYTHON, Look, Told
from verify.outcome import Row
from verify.plan import TORCHRUN, Start, kind_of
from verify.ranks import INFINIBAND, STAGES, Rank

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
# How ssh ends where it could not log in, or lost the other side.
_SSH_FAILED = 255
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
    """Say where a name leads to the node that asks: of the first, and from there.

    ssh may know a name that nobody else does, from its own configuration; PyTorch does not.
    """
    pairs = [(name, first) for name in looks] + [(first, name) for name in looks]
    for here, other in pairs:
        if here == other:
            continue
        address = looks[here].names.get(other)
        if address is None and other == first:
            yield f"{here}: nobody knows the name {other} there; {_MEND_NAMES}"
        elif address is not None and is_loopback(address):
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


def beside(rows: Iterable[Row], addresses: Mapping[str, str]) -> Iterator[str]:
    """Say whose data went by another address than the inventory's; names stand for none there."""
    for row in rows:
        address = addresses[row.node]
        is_told = bool(row.network) and not row.network.startswith(INFINIBAND)
        if (
            is_told
            and address[-1:].isdigit()
            and address not in row.network.replace(",", "").split()
        ):
            yield f"{row.node}: its data went by {row.network}, and not by its address {address}"


def stopped(start: Start, ranks: Sequence[Rank], told: Mapping[str, Told]) -> Iterator[str]:
    """Say what stopped a run: errors of ranks, ranks that never came, stages not passed.

    `told` is what each node told when the time was over, or the launcher back.
    """
    failed = [rank for rank in ranks if rank.error]
    for rank in failed:
        yield f"{rank.node}: rank {rank.number} failed after '{rank.stage}': {rank.error}"
    missing = list(_missing(start, ranks, told))
    yield from missing
    waiting = [rank for rank in ranks if not rank.error and rank.stage != STAGES[-1]]
    yield from _waiting(start, waiting, bool(failed or missing))
    if not (failed or missing or waiting):
        yield from _after_the_end(start, told.get(start.master, Told()))
    for rank in waiting:
        own = rank.says("own_address")
        if start.backend == "gloo" and own and is_loopback(own):
            yield (
                f"{rank.node}: its own name is {own} there, and that address is what gloo tells "
                f"the others; {_MEND_NAMES}"
            )


def _waiting(start: Start, waiting: Sequence[Rank], is_told: bool) -> Iterator[str]:
    """Say how far the ranks came that neither failed nor ended; the hindmost kept the others.

    `is_told` that another cause is told already.
    """
    reached = [stage for stage in STAGES if any(rank.stage == stage for rank in waiting)]
    for stage in reached:
        those = [rank for rank in waiting if rank.stage == stage]
        who = ", ".join(f"{rank.number} ({rank.node})" for rank in those)
        if is_told or stage != reached[0]:
            yield f"rank {who} came as far as '{stage}', and waited for the others"
        else:
            why = _NEXT[stage].format(master=start.master, port=start.port)
            yield f"rank {who} came as far as '{stage}' within {start.seconds} s: {why}"


def _after_the_end(start: Start, launching: Told) -> Iterator[str]:
    """Say which launcher failed though every rank was done: it would fail a job as well."""
    for command, code in launching.exits.items():
        if code:
            words = last_words(launching.logs.get(command, ()))
            yield f"every rank was done, and then {kind_of(start)} ended with {code}: {words}"


def _missing(start: Start, ranks: Sequence[Rank], told: Mapping[str, Told]) -> Iterator[str]:
    """Say of each node where no rank began what its launcher said."""
    launching = told.get(start.master, Told())
    apart = kind_of(start) == TORCHRUN
    for number, seat in enumerate(start.seats):
        name = seat.peer.name
        command = number if apart else 0
        code = launching.exits.get(command)
        is_cut = code is None and any(launching.exits.values())
        if not is_cut and not any(rank.node == name for rank in ranks):
            words = _words(name, launching.logs.get(command, ()))
            yield f"{name}: no rank started: {_ended(start, name, code)}{words}"


def _ended(start: Start, name: str, code: int | None) -> str:
    kind = kind_of(start)
    if code is None:
        return f"{kind} was not back after {start.seconds} s"
    if code == _SSH_FAILED and kind == TORCHRUN:
        return f"{start.master} could not log in to {name}, or lost it"
    return f"{kind} ended with {code}"


def _words(name: str, lines: Sequence[str]) -> str:
    """The reason that a launcher's words hold; pdsh puts a node's name before the node's own."""
    own = [line for line in lines if line.startswith(f"{name}: ")]
    said = last_words(own or lines)
    return f": {said}" if said else ", without a word"


def last_words(lines: Sequence[str]) -> str:
    """Return the last line that tells a reason; of a traceback that is its end."""
    told = [line.strip() for line in lines if _WORDS.search(line)]
    reasons = [line.strip() for line in lines if _WORDS.search(line) and not _CHATTER.search(line)]
    return (reasons or told or [""])[-1][:300]
