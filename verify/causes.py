"""Causes: what is wrong with a node's Python before the start, and why a run stopped."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpu_node.drift.network.interfaces import is_unset, selected
from gpu_node.inventories.fields.addresses import is_loopback
from gpu_node.inventories.plurals import counted
from gpu_node.verify.isolate import Named
from gpu_node.verify.nodes import NAME_PYTHON, RankOutput
from gpu_node.verify.outcome import Row
from gpu_node.verify.output import Look
from gpu_node.verify.plan import TORCHRUN, Start, kind_of
from gpu_node.verify.ranks import INFINIBAND, STAGES, Rank

_PORTS = (
    "a firewall that blocks ports between the nodes (a job listens on ports that it chooses "
    "itself), or the wrong interface: look at the network of gpu-node drift"
)
# Why the next stage is not reached, for each stage: the most frequent reasons.
_NEXT = {
    "started": "torch was not imported in time: a slow disk, or a package that hangs",
    "imported": "it did not reach {master} at port {port}: a firewall, or a name that resolves to "
    "another address",
    "connected": f"it found the other ranks but could not form a group with them: {_PORTS}",
    "init": f"the first all-reduce did not end: {_PORTS}; or torch or NCCL of different versions",
    "small": "the large all-reduce did not end: an MTU that a link between the nodes does not "
    "support, /dev/shm too small, or a link too slow for --timeout",
    "large": "the all-reduces were correct but the measurement did not end: use a larger --timeout",
}
# ssh's exit status if it could not log in, or lost the connection.
_SSH_FAILED = 255
_WORDS = re.compile(r"[A-Za-z]")
# Progress output, which gives no reason.
_CHATTER = re.compile(r"^\s*File |^\s*\^|^Traceback|\bWARNING\b|\bINFO\b|^\*+$|^\s+|^[WI]\d{4,8} ")


def wrong_python(name: str, look: Look) -> str:
    """Return why a node's Python cannot take part in a job; "" if it can."""
    if look.error is not None:
        return f"{name}: {look.python} cannot import torch: {look.error}; {NAME_PYTHON}"
    if not look.distributed:
        return f"{name}: torch {look.torch} of {look.python} was built without torch.distributed"
    return ""


def wrong_gpus(name: str, look: Look, count: int | None) -> str:
    """Return a message if torch does not see `count` GPUs, else ""; None is any number."""
    if count is None or look.gpus == count:
        return ""
    sees = counted(look.gpus, "GPU", none="no")
    return (
        f"{name}: torch {look.torch} of {look.python} sees {sees}, the inventory has gpu.count "
        f"{count}: check with gpu-node drift (a CPU-only torch? CUDA_VISIBLE_DEVICES? the "
        "driver?), or use --backend gloo to test without GPUs"
    )


def wrong_launcher(kind: str, looks: Mapping[str, Look]) -> Iterator[str]:
    """Yield why DeepSpeed's launcher or mpirun cannot start the same Python on all nodes."""
    if kind == TORCHRUN:
        return
    pythons = {name: look.python for name, look in looks.items()}
    if len(set(pythons.values())) > 1:
        each = ", ".join(f"{name} {python}" for name, python in pythons.items())
        why = f"{kind} starts one path on all nodes, but their Pythons differ"
        yield f"{why}: {each}; {NAME_PYTHON}"
    for name, look in looks.items():
        if kind == "deepspeed" and not look.deepspeed:
            yield (
                f"{name}: {look.python} has no deepspeed, but the inventory has launcher: "
                f"deepspeed; install it there, or {NAME_PYTHON}"
            )


def wrong_names(first: str, looks: Mapping[str, Look]) -> Iterator[str]:
    """Yield the names that do not resolve, or to loopback: between the first node and the others.

    Only ssh reads its own configuration: a name from there is unknown to PyTorch.
    """
    pairs = [(name, first) for name in looks] + [(first, name) for name in looks]
    for here, other in pairs:
        if here == other:
            continue
        address = looks[here].names.get(other)
        if address is None and other == first:
            yield f"{here}: the name {other} does not resolve there; {_MEND_NAMES}"
        elif address is not None and is_loopback(address):
            why = f"{other} resolves to {address} there, which is {here} itself"
            yield f"{here}: {why}; {_MEND_NAMES}"


_MEND_NAMES = "set ssh: {mesh: true} in the inventory and deploy: that writes it to /etc/hosts"


def different(looks: Mapping[str, Look]) -> Iterator[Named]:
    """Yield nodes whose versions are not those of most: a job hangs or fails with them."""
    for what, values in (
        ("torch", {name: look.torch for name, look in looks.items()}),
        ("NCCL", {name: look.nccl for name, look in looks.items()}),
    ):
        (usual, most), *others = Counter(values.values()).most_common()
        if others:
            is_known = most > others[0][1]
            odd = (name for name, value in values.items() if not is_known or value != usual)
            each = ", ".join(f"{name} {value or 'none'}" for name, value in values.items())
            yield Named(tuple(odd), f"{what} differs: {each}")


def contradictions(start: Start, outputs: Mapping[str, RankOutput]) -> Iterator[str]:
    """Yield a message for each node whose ranks report what is impossible."""
    owners: dict[int, str] = {}
    for name, each in outputs.items():
        if each.problem:
            yield f"{name}: cannot read the output of its ranks: {each.problem}"
        for number in sorted({line["rank"] for line in each.ranks}):
            if number >= start.ranks:
                yield f"{name}: reports rank {number}, but the job has {start.ranks} ranks"
            elif number in owners:
                yield f"{name}: reports rank {number}, which {owners[number]} reports as well"
            owners.setdefault(number, name)


def absent(ranks: Iterable[Rank]) -> Iterator[str]:
    """Yield the variables that name no interface of a rank's node: no job begins with them."""
    for rank in ranks:
        names = [*(rank.reported("interfaces") or ())]
        nccl, gloo = (str(rank.reported(key) or "") for key in ("ifname", "gloo_ifname"))
        variables = {
            "NCCL_SOCKET_IFNAME": (nccl, is_unset(nccl) or selected(nccl, names)),
            "GLOO_SOCKET_IFNAME": (gloo, not gloo or {*gloo.split(",")} <= {*names}),
        }
        for variable, (value, is_there) in variables.items():
            if names and not is_there:
                yield f"{variable} is {value} there, and its interfaces are {', '.join(names)}"


def beside(rows: Iterable[Row], addresses: Mapping[str, str]) -> Iterator[str]:
    """Yield the nodes whose data used another address than the inventory's; names are skipped."""
    for row in rows:
        address = addresses[row.node]
        is_known = bool(row.network) and not row.network.startswith(INFINIBAND)
        if (
            is_known
            and address[-1:].isdecimal()
            and address not in row.network.replace(",", "").split()
        ):
            yield f"{row.node}: its data used {row.network}, not its address {address}"


def stopped(
    start: Start, ranks: Sequence[Rank], outputs: Mapping[str, RankOutput]
) -> Iterator[str]:
    """Yield why a run stopped: errors of ranks, ranks that never started, stages not passed.

    `outputs` is the output of each node when the time was over or the launcher ended.
    """
    failed = [rank for rank in ranks if rank.error]
    for rank in failed:
        yield f"{rank.node}: rank {rank.number} failed after '{rank.stage}': {rank.error}"
    missing = list(_missing(start, ranks, outputs))
    yield from missing
    waiting = [rank for rank in ranks if not rank.error and rank.stage != STAGES[-1]]
    yield from _waiting(start, waiting, bool(failed or missing))
    if not (failed or missing or waiting):
        yield from _after_the_end(start, outputs.get(start.master, RankOutput()))
        if [rank.number for rank in ranks] != [*range(start.ranks)]:
            yield f"only {len(ranks)} of {start.ranks} ranks reported a result"
    for rank in waiting:
        own = rank.reported("own_address")
        if start.backend == "gloo" and own and is_loopback(own):
            yield (
                f"{rank.node}: its own name resolves to {own} there, and gloo sends that address "
                f"to the other nodes; {_MEND_NAMES}"
            )


def known(outputs: Mapping[str, RankOutput]) -> Iterator[str]:
    """Yield the cause that the output of a failed run shows first, as `gpu-node diagnose` does."""
    # A run that succeeds does not need the causes, which take a while to load.
    from gpu_node.diagnose.answer import diagnose
    from gpu_node.diagnose.sources import Log

    logs = [
        Log(f"{name}, command {number}", None, data="\n".join(lines).encode("utf-8", "replace"))
        for name, output in outputs.items()
        for number, lines in output.logs.items()
    ]
    for candidate in diagnose(logs).candidates[:1]:
        then = f"gpu-node explain {candidate.cause.id}"
        yield f"the likeliest cause in its output: {candidate.says} ({then})"


def _waiting(start: Start, waiting: Sequence[Rank], has_cause: bool) -> Iterator[str]:
    """Yield the last stage of ranks that neither failed nor ended; the slowest delays the rest.

    `has_cause`: another cause is known already.
    """
    reached = [stage for stage in STAGES if any(rank.stage == stage for rank in waiting)]
    for stage in reached:
        those = [rank for rank in waiting if rank.stage == stage]
        who = ", ".join(f"{rank.number} ({rank.node})" for rank in those)
        if has_cause or stage != reached[0]:
            yield f"rank {who} reached '{stage}' and waited for the other ranks"
        else:
            why = _NEXT[stage].format(master=start.master, port=start.port)
            yield f"rank {who} did not get past '{stage}' within {start.seconds} s: {why}"


def _after_the_end(start: Start, launching: RankOutput) -> Iterator[str]:
    """Yield a launcher that failed although every rank was done: a job would fail as well."""
    for command, code in launching.exits.items():
        if code:
            end = f"{kind_of(start)} ended with exit status {code}"
            reason = last_line(launching.logs.get(command, ()))
            yield f"every rank was done, but {end}: {reason}"


def _missing(
    start: Start, ranks: Sequence[Rank], outputs: Mapping[str, RankOutput]
) -> Iterator[str]:
    """Yield the launcher's output for each node where no rank started."""
    launching = outputs.get(start.master, RankOutput())
    apart = kind_of(start) == TORCHRUN
    for number, placement in enumerate(start.placements):
        name = placement.peer.name
        command = number if apart else 0
        code = launching.exits.get(command)
        is_cut = code is None and any(launching.exits.values())
        if not is_cut and not any(rank.node == name for rank in ranks):
            words = _reason(name, launching.logs.get(command, ()))
            yield f"{name}: no rank started: {_ended(start, name, code)}{words}"


def _ended(start: Start, name: str, code: int | None) -> str:
    kind = kind_of(start)
    if code is None:
        return f"{kind} did not end within {start.seconds} s"
    if code == _SSH_FAILED and kind == TORCHRUN:
        return f"{start.master} could not log in to {name}, or lost the connection"
    return f"{kind} ended with exit status {code}"


def _reason(name: str, lines: Sequence[str]) -> str:
    """Return the reason in a launcher's output; pdsh puts the node's name before its lines."""
    own = [line for line in lines if line.startswith(f"{name}: ")]
    reason = last_line(own or lines)
    return f": {reason}" if reason else ", without output"


def last_line(lines: Sequence[str]) -> str:
    """Return the last line with a reason: of a traceback its last line."""
    words = [line.strip() for line in lines if _WORDS.search(line)]
    reasons = [line.strip() for line in lines if _WORDS.search(line) and not _CHATTER.search(line)]
    return (reasons or words or [""])[-1][:300]
