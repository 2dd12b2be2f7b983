"""Job rules: the job's own files and line against the nodes that it starts on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import ip_interface
from itertools import takewhile
from shlex import quote
from typing import TYPE_CHECKING

from gpu_node.drift.engine.nodes import Nodes, plain
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path, Variable
from gpu_node.drift.host.rules_job import found_gpus, gpus_of
from gpu_node.drift.job.names import C10D, CONDA, CONFIG, MASTER, NODES, STATIC
from gpu_node.facts.job.state import JobState, Program, Python
from gpu_node.facts.network.state import Address, NetworkState
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.file_systems import Place, are_shared
from gpu_node.inventories.fields.addresses import is_address, is_loopback

if TYPE_CHECKING:  # what reads a line is for check-job alone
    from gpu_node.drift.job.job import Job
    from gpu_node.drift.job.launch import Launch

# What of a launcher's defaults means the first address that this command prints.
_FIRST_ADDRESS = "hostname -I"


def job_in(nodes: Nodes) -> Job:
    """Return the job that the nodes are judged for."""
    from gpu_node.drift.job.job import Job

    if not isinstance(nodes.task, Job):
        raise TypeError(f"{nodes.task!r} is no job")
    return nodes.task


def _first(job: Job, nodes: Nodes) -> JobState | None:
    """Return what the launching node has of the job; None where it gave no answer."""
    state = nodes.states.get(job.launcher)
    return state.job if state and job.launcher != nodes.name else None


@check("job.config")
def config(at: At) -> Iterator[Fault]:
    job = job_in(at.nodes)
    if at.nodes.name == job.launcher:
        yield from job.faults.get(CONFIG, ())
        return
    first = _first(job, at.nodes)
    mine = {file.path: file for file in at.node.job.files or () if not file.problem}
    for file in (first.files if first else None) or ():
        own = mine.get(file.path) if job.given.is_clear(file.path, False) else None
        if file.path == job.config_name and own and not file.problem and own.text != file.text:
            yield Fault(
                Path(file.path),
                "another content",
                f"the same as on {job.launcher}",
                "ranks with other settings may wait for collectives that the others do not call",
                severity="warning",
            )


@check("job.nodes")
def members(at: At) -> Iterator[Fault]:
    job = job_in(at.nodes)
    if at.nodes.name == job.launcher:
        yield from job.faults.get(NODES, ())
        yield from _processes(at.nodes, job)
    yield from _machine_rank(at.nodes, job)
    user, own = job.users.get(at.nodes.name), at.node.env.user
    if user and own and user != own.name:
        yield Fault(
            "user",
            f"{user}, by the hostfile",
            f"{own.name}, as whom the nodes are judged",
            f"the ranks of this node have the home and the shell of {user}: neither was read",
            f"remove {user}@ from the hostfile, or set launcher: {{user: {user}}} in the inventory",
            severity="warning",
        )


def _processes(nodes: Nodes, job: Job) -> Iterator[Fault]:
    """Yield that the total of a launcher leaves GPUs of its machines without a rank."""
    launch, file = job.given.launch.innermost, job.accelerate
    chosen = launch.option("gpu_ids") or (file and file.gpu_ids) or "all"
    is_chosen = chosen != "all" or "CUDA_VISIBLE_DEVICES" in job.given.variables(True)
    members = [peer for peer in nodes.peers if peer.name in job.members]
    counts = [
        found if state and (found := found_gpus(state)) is not None else gpus_of(peer, nodes)
        for peer, state in ((peer, nodes.states.get(peer.name)) for peer in members)
    ]
    row = launch.row
    if not row.counts_all or is_chosen or "cpu" in launch.options or None in counts:
        return
    total = launch.count("ranks") or (file and file.num_processes) or 0
    most = min((each for each in counts if each), default=0) * len(counts)
    if len(counts) > 1 and 0 < total < most and total % len(counts) == 0:
        name = row.roles["ranks"]
        yield Fault(
            name,
            str(total),
            f"{most}, the GPUs of all nodes",
            f"{name} is the total of all machines: GPUs are left without a rank",
            f"write {row.shown('ranks')} {most} in the line"
            + f", or {name}: {most} in the file" * bool(file),
            severity="warning",
        )


def _machine_rank(nodes: Nodes, job: Job) -> Iterator[Fault]:
    """Yield that the node's file of accelerate has the rank of another node, or no such rank."""
    ranks, count = nodes.once(_machine_ranks), len(job.members)
    rank = ranks.get(nodes.name)
    if rank is None:
        return
    before = [name for name in job.members if ranks.get(name) == rank]
    as_on = f", as on {before[0]}" if before[0] != nodes.name else ""
    if as_on or rank >= count:
        yield Fault(
            Path(job.given.accelerate_file),
            f"machine_rank: {rank}{as_on}",
            f"0 to {count - 1}, another on each node",
            "the nodes wait for the rank that none has, and end with a time-out",
            "correct machine_rank in the file of each node, or add --machine_rank N to its line",
        )


def _machine_ranks(nodes: Nodes) -> dict[str, int]:
    """Return the machine_rank in each node's file, where it counts."""
    from gpu_node.drift.job import configs

    job = job_in(nodes)
    launch, path = job.given.launch.innermost, job.given.accelerate_file
    found: dict[str, int] = {}
    other = {"machine_rank", "rdzv_backend", "use_deepspeed", "deepspeed_hostfile"}
    if not path or other & launch.options.keys() or not launch.is_whole:
        return found
    for name in job.members:
        files = nodes.states[name].job.files if name in nodes.states else ()
        text = next((each.text for each in files or () if each.path == path), "")
        read = configs.accelerate(text)
        is_clear = job.given.is_clear(path, name == job.launcher)
        if is_clear and isinstance(read, configs.Accelerate) and read.has_ranks:
            nodes_of_it = launch.count("nodes") or read.num_machines
            if isinstance(read.machine_rank, int) and nodes_of_it == len(job.members):
                found[name] = read.machine_rank
    return found


@check("job.slots")
def slots(at: At) -> Iterator[Fault]:
    job = job_in(at.nodes)
    wanted, seen = at.wanted.gpu.count if at.wanted.gpu else None, found_gpus(at.node)
    gpus = wanted if seen is None else seen
    other = f" (inventory: {wanted})" if wanted is not None and gpus != wanted else ""
    launch = job.given.launch
    how = launch.innermost.row.ranks or launch.row.ranks
    fix = f"start at most one rank for each GPU{how and ': '}{how}"
    ranks = job.members.get(at.nodes.name)
    has_none = seen is None and at.node.driver.own_devices == () and wanted != 0
    if has_none and at.nodes.name in job.members:
        cause = "" if wanted else "a job on the CPU alone (gloo) starts all the same"
        least = f"a GPU for each rank{f' (inventory: {wanted})' if wanted else ''}"
        yield Fault("GPUs", "none", least, cause, severity=None if wanted else "warning")
    if has_none or gpus is None or at.nodes.name not in job.members:
        return
    named = job.gpus.get(at.nodes.name, ())
    own = job.given.variables(at.nodes.name == job.launcher)
    words = own.get("CUDA_VISIBLE_DEVICES", "")
    chosen = [int(each) for each in words.split(",") if each.isdecimal() and len(each) < 5]
    needed = ranks or 1
    if launch.innermost.row.sets_gpus:
        # DeepSpeed sets the variable for the ranks that it is asked for, or makes --include of it.
        chosen, needed = ([], 0) if ranks else (chosen, len(chosen))
    # CUDA shows the GPUs before the first number that is none.
    visible = [*takewhile(lambda each: each < gpus, chosen)]
    if ranks is not None and ranks > gpus:
        yield Fault("ranks", str(ranks), f"at most {gpus}, its GPUs{other}", fix=fix)
    elif named and max(named) >= gpus:
        shown = ", ".join(map(str, named[:8])) + ", ..." * (len(named) > 8)
        yield Fault("GPUs", shown, f"0 to {gpus - 1}{other}")
    elif len(visible) < len(chosen) and needed > len(visible):
        yield Fault(Variable("CUDA_VISIBLE_DEVICES"), words, f"0 to {gpus - 1}")
    elif chosen and needed > len(visible):
        at_most = f"at most {len(chosen)}: CUDA_VISIBLE_DEVICES={words}"
        yield Fault("ranks", str(ranks), at_most, fix=fix)


@check("job.batch")
def batch(at: At) -> Iterator[Fault]:
    job = job_in(at.nodes)
    if at.nodes.name != job.launcher or job.config is None:
        return
    sizes, world = job.config, job.world
    micro, steps = sizes.train_micro_batch_size_per_gpu, sizes.gradient_accumulation_steps
    for name, own in (
        ("per_device_train_batch_size", micro),
        ("gradient_accumulation_steps", steps),
    ):
        text = job.given.argument(name)
        if own and text and text.isdecimal() and int(text) != own:
            yield Fault(
                f"--{name}",
                text,
                f"{own}, as in {job.config_name}, or auto there",
                "transformers ends with 'Please correct the following DeepSpeed config values "
                "that mismatch TrainingArguments values'",
            )
    total = sizes.train_batch_size
    if total is None or world is None:
        return
    if micro and steps and micro * steps * world != total:
        found = f"{micro} x {steps} x {world} ranks = {micro * steps * world}"
        yield Fault("train_batch_size", str(total), found)
    elif (part := (micro or 1) * (steps or 1) * world) and total % part:
        known = " x ".join(str(each) for each in (micro, steps) if each)
        factors = f"{known} x {world} ranks" if known else f"{world} ranks"
        yield Fault("train_batch_size", str(total), f"a multiple of {factors}")


@check("job.path")
def path(at: At) -> Iterator[Fault]:
    job = job_in(at.nodes)
    outputs, is_launcher = job.given.paths, at.nodes.name == job.launcher
    first = _first(job, at.nodes)
    clear = [each for each in at.node.job.paths or () if job.given.is_clear(each.path, is_launcher)]
    missing = {each.path for each in at.node.job.paths or () if each.kind == "missing"}
    # job.config reports a file that the launching node has not.
    unread = {each.path for each in at.node.job.files or () if each.problem == "missing"}
    unread -= {job.given.odd_script}
    reported = unread if is_launcher else set()
    theirs = {each.path: each for each in (first.paths if first else None) or ()}
    for each in clear:
        if each.path in reported or (each.path[0] not in "/~" and job.given.folder in missing):
            continue
        is_output = outputs.get(each.path, True)
        need = "w" if is_output else "r"
        if each.kind == "missing" and not is_output and "x" in each.access:
            verb = "starts in" if each.path == job.given.folder else "reads"
            found = job.given.missing(each.path)
            yield Fault(Path(each.path), found, f"a file or folder that the job {verb}")
        elif need not in each.access or (
            each.kind in ("directory", "missing") and "x" not in each.access
        ):
            verb = "write" if is_output else "read"
            yield Fault(
                Path(each.path),
                f"closed to the training user (rights: {each.access or 'none'})",
                f"a place that the training user can {verb}",
                "the ranks of this node end with 'Permission denied'",
            )
        other = theirs.get(each.path)
        if other and each.place and other.place:
            yield from _unshared(each.path, each.place, other.place, job.launcher)


def _unshared(path: str, own: Place, other: Place, launcher: str) -> Iterator[Fault]:
    """Yield a path that one node shares and the other has not, or that two servers have."""
    both = own.is_network and other.is_network
    is_local = not own.is_network and not other.is_network
    if is_local or are_shared({path: own}, {path: other}) is not False:
        return
    here, there = (
        f"{'shared' if place.is_network else 'local'} ({place.source if both else place.kind})"
        for place in (own, other)
    )
    yield Fault(
        Path(path),
        here,
        f"{there}, as on {launcher}",
        "the nodes see different files under one path: a checkpoint that one writes, another does "
        "not find",
        severity="warning",
    )


# Bytes of a checkpoint for a parameter: 2 of the model, 12 of the optimizer and the copy in fp32
# (DeepSpeed's states; the gradients are not saved).
_SAVED = 14
# Without the number of parameters: no model that needs a GPU fits below. Proposed, no source.
_LEAST_FREE = 1 << 30


@check("job.space")
def space(at: At) -> Iterator[Fault]:
    job = job_in(at.nodes)
    outputs = job.given.paths
    parameters = at.wanted.jobs.parameters if at.wanted.jobs else None
    needed = parameters * _SAVED if parameters else _LEAST_FREE
    for each in at.node.job.paths or ():
        shares = 1 if each.place and each.place.is_network else max(len(job.members), 1)
        is_clear = job.given.is_clear(each.path, at.nodes.name == job.launcher)
        if (
            is_clear
            and outputs.get(each.path)
            and each.free is not None
            and each.free < needed // shares
        ):
            least = f"{_gib(needed // shares)} GiB"
            of = f" for a checkpoint of {parameters:.3g} parameters" if parameters else ""
            yield Fault(Path(each.path), f"{_gib(each.free)} GiB free", f"{least}{of}")


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f}"


_COMPARED = ("torch", "deepspeed", "accelerate")


@check("job.program")
def program(at: At) -> Iterator[Fault]:
    job = job_in(at.nodes)
    pythons = {each.path: each for each in at.node.job.pythons or ()}
    first = _first(job, at.nodes)
    # A launcher that runs on its own node alone may give each node the path of its Python.
    is_sent = job.given.launch.sent.python and first is not None
    is_launcher = at.nodes.name == job.launcher
    there = {each.path: each for each in (first.pythons if first else None) or ()}
    theirs = _programs(first)
    found = theirs if is_sent else _programs(at.node.job)
    for name in job.given.programs if found else ():
        named = job.given.program(name, is_launcher or is_sent)
        each = found.get(named, Program(name=named or name, path="", python=""))
        if not each.path and each.name.startswith(CONDA):
            continue  # Conda alone knows all folders of its environments.
        if not is_sent and each.closed:
            yield _closed(each.name, each.closed)
            continue
        if not is_sent and not each.path and "/" in each.name:
            yield Fault(each.name, "missing", "a program on this node")
            continue
        if not is_sent and not each.path:
            shell = "the shell that starts it" if not named else "a launcher's shell"
            yield Fault(each.name, f"not in the PATH of {shell}", "its whole path")
            continue
        own = pythons.get(each.python)
        yield from _installed(each, own, is_sent)
        at_first = theirs.get(job.given.program(name, True))
        yield from _unlike(job, own, there.get(at_first.python) if at_first else None)


def _closed(subject: Path | str, place: str) -> Fault:
    return Fault(
        subject,
        f"closed to the training user: {place}",
        "a program that the training user can start",
        "the ranks of this node end with 'Permission denied'",
        f"open {quote(place)} to that user, or name a program that it can start",
    )


def _programs(state: JobState | None) -> dict[str, Program]:
    return {each.name: each for each in (state.programs if state else None) or ()}


def _installed(each: Program, own: Python | None, is_sent: bool) -> Iterator[Fault]:
    if own is None:
        return
    if own.closed:
        yield _closed(Path(own.path), own.closed)
    elif not own.version and "torch" not in own.packages:
        found = "neither its version nor a torch was found"
        yield Fault(Path(each.python), found, "the Python of the job", severity="warning")
    elif own.version == "missing":
        yield Fault(
            Path(each.python),
            "missing",
            "the Python of the line",
            "DeepSpeed starts each rank with the Python of the launching node, by its path"
            if is_sent
            else "the program's first line names this Python",
        )
    elif "torch" not in own.packages:
        yield Fault(Path(each.python), "no torch", "the torch of the job")


def _unlike(job: Job, own: Python | None, other: Python | None) -> Iterator[Fault]:
    if own is None or own.closed or other is None or "missing" in (own.version, other.version):
        return
    if own.version and other.version and own.version != other.version:
        yield Fault(
            Path(own.path),
            f"Python {own.version}",
            f"Python {other.version}, as on {job.launcher}",
            "objects that ranks exchange (pickle) may not be readable",
            severity="warning",
        )
    names = [*_COMPARED, *(name for name in other.packages if name.startswith("nvidia-nccl"))]
    for name in names:
        mine, theirs = own.packages.get(name), other.packages.get(name)
        if theirs and mine != theirs:
            yield Fault(
                Path(own.path),
                f"{name} {mine}" if mine else f"no {name}",
                f"{name} {theirs}, as on {job.launcher}",
                "ranks with unlike versions hang, or end in 'unhandled system error'",
            )


@check("job.master")
def master(at: At) -> Iterator[Fault]:
    job = job_in(at.nodes)
    address, port = job.master
    several = len(job.members) > 1
    launch = job.given.launch.innermost
    if at.nodes.name == job.launcher:
        yield from job.faults.get(MASTER, ())
    usual = launch.row.defaults.get("address", "")
    if address and launch.role("alone") is None:
        yield from _address(at.node, at.nodes, job, address)
    elif several and at.nodes.name == job.launcher and _is_alone(job, launch):
        found = f"none: {launch.kind} takes {usual}"
        cause = "each node would wait for itself"
        rank = (
            f", and {launch.row.shown('rank')} on each node" if "rank" in launch.row.roles else ""
        )
        fix = f"add {launch.row.shown('address')} ADDRESS{rank}"
        yield Fault("master address", found, "that of the first node", cause, fix)
    elif usual == _FIRST_ADDRESS and not address and several and not job.given.is_inside:
        yield from _default_address(at.node, at.nodes, job)
    is_there = at.nodes.name == next(iter(job.members), None)
    if port is None or not is_there:
        return
    about = f"port {port}"
    first = at.node.job.first_free_port
    if port == 0:
        yield Fault(about, "any free port", "one that all nodes know: 1 to 65535")
    elif listening := (at.node.job.listening or {}).get(port):
        where = "loopback" if all(map(_listens_on_loopback, listening)) else "all or some addresses"
        cause = "rank 0 ends with 'EADDRINUSE', 'The server socket has failed to listen'"
        fix = f"ss -ltnp 'sport = :{port}' shows the program: often a job that was left"
        yield Fault(about, f"taken: a program listens ({where})", "a free port", cause, fix)
    elif first is not None and at.node.job.uid and port < first:
        yield Fault(about, f"below {first}, which root alone may use", f"{first} to 65535")


def _is_alone(job: Job, launch: Launch) -> bool:
    """Whether a launcher takes its own node: the line has no address, nor has torchrun PET_...."""
    return (
        is_loopback(launch.row.defaults.get("address", ""))
        and launch.is_whole
        and launch.role("alone", "endpoint", "address") is None
        and job.backend == STATIC
        and not any(name.startswith("PET_") for name in job.given.variables(True))
    )


def _address(state: NodeState, nodes: Nodes, job: Job, address: str) -> Iterator[Fault]:
    means = (state.job.names or {}).get(address, (plain(address),) if is_address(address) else ())
    if means is None:
        return
    about = "master address"
    first = next(iter(job.members))
    if not means:
        if address in (state.job.names or {}):
            yield Fault(about, f"{address} does not resolve", "an address of the first node")
        return
    several = len(job.members) > 1
    if all(map(is_loopback, means)):
        if not several:
            return
        cause = "each node would wait for itself"
        found = address if address in means else f"{address} means {means[0]}"
        yield Fault(about, f"{found}, loopback", "an address that all nodes reach", cause)
        return
    if nodes.name != first:
        return
    is_ranked = job.backend != C10D and job.given.launch.innermost.count("rank") == 0
    on_first = job.given.launch.row.logs_in or not several or is_ranked
    hosts = [first] if on_first else [*job.members]
    states = {**nodes.states, first: state}
    own = [_addresses(states[name]) if name in states else set() for name in hosts]
    # Without an answer a node may have it.
    if all(own) and not any(each & set(means) for each in own):
        where = first if on_first else "any node of the job"
        found = f"{address} is not an address of {where}"
        yield Fault(about, found, "an address of the first node")


def _addresses(state: NodeState) -> set[str]:
    return {each.address.partition("/")[0] for each in state.network.addresses or ()}


def _default_address(state: NodeState, nodes: Nodes, job: Job) -> Iterator[Fault]:
    """Yield what is wrong with the address that a launcher takes without an option of it.

    DeepSpeed's launcher/runner.py: the first that `hostname -I` prints on the first host, which are
    the addresses of the interfaces that are up, but for loopback, in their order.
    """
    first = next(iter(job.members))
    if nodes.name != first or not state.network.addresses:
        return
    named = nodes.itself.address if nodes.itself else ""
    launch = job.given.launch.innermost
    option = launch.row.shown("address")
    fault = partial(
        Fault,
        "master address",
        cause=f"without {option} {launch.kind} takes what hostname -I prints first on {first}",
        fix=f"add {option} {named if is_address(named) else 'ADDRESS'}",
    )
    printed = _hostname_i(state.network)
    if not printed:
        yield fault("hostname -I prints nothing", "an address")
        return
    address, network = plain(printed[0].address), ip_interface(printed[0].address).network
    others = {
        name: [each.address for each in nodes.states[name].network.addresses or ()]
        for name in job.members
        if name != first and name in nodes.states
    }
    same = [name for name, all_of_it in others.items() if address in map(plain, all_of_it)]
    apart = [
        name
        for name, all_of_it in others.items()
        if all_of_it and not any(ip_interface(each).ip in network for each in all_of_it)
    ]
    shown, wanted = f"{address} ({printed[0].interface})", "one that all nodes reach"
    if same:
        yield fault(f"{shown}, which {', '.join(same[:8])} has too", wanted)
    elif apart and plain(named) != address:
        where = ", ".join(apart[:8])
        yield fault(f"{shown}, in no network of {where}", wanted, severity="warning")


def _hostname_i(network: NetworkState) -> list[Address]:
    """Return the addresses that `hostname -I` prints, in its order: IPv4 comes first."""
    down = {link.name for link in network.links or () if not link.up}
    return sorted(
        (
            each
            for each in network.addresses or ()
            if each.scope not in ("host", "link") and each.interface not in down
        ),
        key=lambda each: ":" in each.address,
    )


def _listens_on_loopback(listening: str) -> bool:
    """Whether an address as the kernel writes it is loopback: 127.x, its bytes turned, or ::1."""
    return (listening.endswith("7F") and len(listening) == 8) or listening == "0" * 24 + "01000000"
