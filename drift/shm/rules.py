"""Shared memory rules: /dev/shm is large enough, stays so after a boot, and can be used by all."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.host.machine import is_container, memory_of, trains
from gpu_node.drift.shm.container import run_options
from gpu_node.drift.shm.fstab import falls_short, kept, new_line, with_size
from gpu_node.drift.shm.rules_docker import DEFAULT, LEAST, node_size
from gpu_node.drift.shm.rules_memory import IMPOSSIBLE, half, is_impossible
from gpu_node.drift.units import size
from gpu_node.facts.node import NodeState
from gpu_node.facts.shm.boot import BootLine
from gpu_node.facts.shm.state import FstabLine, ShmState
from gpu_node.inventories.schema import NodeWanted, ShmWanted, format_size

MODE = "1777"


def _restricted(state: ShmState) -> bool:
    """Whether nothing inside may mount: a container without CAP_SYS_ADMIN."""
    return state.container is not None and not state.container.can_mount


def _is_too_small(state: ShmState, wanted: ShmWanted) -> bool:
    if state.mount is None:
        return False
    if state.mount.fstype != "tmpfs":
        return True
    return state.usage is not None and 0 < state.usage.size < wanted.size  # size=0 has no limit


def _is_tiny(state: ShmState) -> bool:
    """Whether it is missing, or no larger than what docker gives: NCCL does not start."""
    if state.usage is None:
        return state.mount is not None and state.mount.layers == 0
    return 0 < state.usage.size <= DEFAULT


def _shown(state: ShmState) -> str:
    if state.mount is None:
        return "unreadable"
    if state.mount.layers == 0:
        return "not mounted"
    if state.mount.fstype != "tmpfs":
        return f"a mount of type {state.mount.fstype}"
    return "unreadable" if state.usage is None else size(state.usage.size)


def _is_boot_size(state: ShmState) -> bool:
    """Whether /dev/shm has the size a boot gives without fstab: half of the memory (tmpfs(5)).

    2 % allow for the kernel's count.
    """
    if state.usage is None or state.memory is None:
        return False
    return abs(state.usage.size - state.memory / 2) < 0.02 * state.memory / 2


def _least(node: NodeState, expected: NodeWanted) -> ShmWanted | None:
    """Return the size that is wanted, or the least for any training; None: any will do."""
    if expected.shm is not None:
        return expected.shm
    if not trains(node, expected) or _is_boot_size(node.shm):
        return None
    usable = memory_of(node)
    return ShmWanted.model_construct(size=min(LEAST, half(usable)) if usable else LEAST)


def proposed_size(node: NodeState, expected: NodeWanted) -> int:
    """Return the size for the inventory: the usual one, or more if more is found.

    It is at most half of the memory, as a boot gives it: what was found may be all of the memory.
    """
    usable, state = memory_of(node), node.shm
    if usable is None:
        return node_size(expected)
    found = 0
    if state.usage is not None and state.mount is not None and state.mount.fstype == "tmpfs":
        found = (state.usage.size or usable) >> 30 << 30
    return min(half(usable), max(node_size(expected), found))


def _boot_gives(node: NodeState, wanted: ShmWanted) -> bool:
    """Whether a boot without a line in fstab gives enough: half of the memory, if it is known.

    A container gets what its manager gives; only what it has shows whether that is half.
    """
    if _is_boot_size(node.shm):
        return not _is_too_small(node.shm, wanted)
    return not is_container(node) and not falls_short("", node.shm.memory, wanted.size)


@rule(
    "shm.too-small",
    ("error", "warning"),
    whole=True,
    step="shm",
    because_of=(IMPOSSIBLE,),
    always=True,
    key="shm.size",
    stops="every",
    why="each process takes about 10 MB here for NCCL, DataLoader workers take more; when it "
    "is full NCCL stops with 'Error while creating shared memory segment "
    "/dev/shm/nccl-...'",
    manual="run mount -o remount,size=SIZE /dev/shm",
    repair="Remounts /dev/shm with the wanted size. Files in it stay.",
    alone="Set NCCL_BUFFSIZE=1048576 and use fewer DataLoader workers, or run the job in a "
    "container: docker run --shm-size=SIZE.",
)
def too_small(node: NodeState, expected: NodeWanted) -> Iterator[Fault]:
    """/dev/shm is smaller than the inventory wants, or too small for any training."""
    state, wanted, least = node.shm, expected.shm, _least(node, expected)
    if least is None or _restricted(state) or not _is_too_small(state, least):
        return
    assert state.mount is not None
    foreign = state.mount.layers > 0 and state.mount.fstype != "tmpfs"
    asked = format_size(wanted.size if wanted else proposed_size(node, expected))
    remount = (
        f"mount -o {','.join(['remount', *kept(state.mount.flags), f'size={asked}'])} /dev/shm"
    )
    mount = f"mount -t tmpfs -o size={asked} tmpfs /dev/shm"
    fix = remount if state.mount.layers else mount
    if foreign:
        fix = f"{state.mount.fstype} is not tmpfs: unmount it first"
    key = f"add shm: {{size: {asked}}} to the inventory, and the deploy sets it"
    yield Fault(
        subject=Path("/dev/shm"),
        found=_shown(state),
        wanted=asked if wanted else f"at least {format_size(least.size)} (proposed)",
        fix=fix,
        deploy="" if wanted or foreign else key,
        fixable=wanted is not None and not foreign and not is_impossible(node, expected),
        severity=None if wanted or _is_tiny(state) else "warning",
        stops=_is_tiny(state),
    )


@rule(
    "shm.container",
    ("error", "warning"),
    whole=True,
    because_of=(IMPOSSIBLE,),
    always=True,
    key="shm.size",
    stops="every",
    why="a container gets 64 MB by default, and cannot remount it; NCCL_SHM_DISABLE=1 would "
    "only hide this and cost speed",
    manual="start the container with --shm-size=SIZE, and with --ulimit and -e for what it lacks",
    alone="Set NCCL_BUFFSIZE=1048576 and use fewer DataLoader workers.",
)
def container(node: NodeState, expected: NodeWanted) -> Iterator[Fault]:
    """/dev/shm is too small and cannot be remounted from inside this container."""
    state, wanted = node.shm, expected.shm
    if state.container is None or not (_restricted(state) and (wanted or trains(node, expected))):
        return
    if not _is_too_small(state, wanted or ShmWanted.model_construct(size=LEAST)):
        return
    proposed = ShmWanted.model_construct(size=node_size(expected))
    enough = expected.model_copy(update={"shm": proposed})
    kind = "" if state.container.kind == "none" else f"{state.container.kind} "
    program = "podman" if state.container.kind == "podman" else "docker"
    yield Fault(
        subject=Path("/dev/shm"),
        found=f"{_shown(state)}, in a {kind}container without CAP_SYS_ADMIN",
        wanted=format_size(wanted.size) if wanted else f"at least {format_size(LEAST)} (proposed)",
        fix=f"start the container with: {program} run {' '.join(run_options(node, enough))}; "
        "--ipc=host in place of --shm-size gives it the host's /dev/shm; or set default-shm-size "
        "in the host's /etc/docker/daemon.json",
        severity=None if wanted or _is_tiny(state) else "warning",
        stops=_is_tiny(state),
    )


@rule(
    "shm.not-persistent",
    ("warning", "info"),
    whole=True,
    step="shm",
    because_of=(IMPOSSIBLE,),
    under="shm.too-small",
    why="the next boot mounts /dev/shm as /etc/fstab specifies, or with half of the memory",
    manual="set size=SIZE in the line for /dev/shm in /etc/fstab",
    repair="Writes the line for /dev/shm in /etc/fstab.",
    alone="After a boot, check the size: df -h /dev/shm.",
)
def not_persistent(node: NodeState, expected: NodeWanted) -> Iterator[Fault]:
    """/etc/fstab does not give /dev/shm the wanted size, so a reboot loses it."""
    state, wanted = node.shm, expected.shm
    if wanted is None or _restricted(state) or state.fstab is None:
        return
    possible = not is_impossible(node, expected)
    # Writing the wanted size to fstab would make it smaller.
    enough = _boot_gives(node, wanted) or any(
        each.state == "runs" and not falls_short(each.size, state.memory, wanted.size)
        for each in state.boot or ()
    )
    if not state.fstab and not enough:
        add = new_line(format_size(wanted.size), state.mount.flags if state.mount else ())
        yield _fstab_fault("no line for /dev/shm", wanted, f"add to /etc/fstab: {add}", possible)
    for line in state.fstab:
        where = f"line {line.line}"
        if line.fstype != "tmpfs":
            fix = "that line mounts something else over /dev/shm: remove it"
            yield _fstab_fault(f"{where}: type {line.fstype}", wanted, fix, fixable=False)
        elif spoilt := _spoilt(line):
            fix = f"remove {spoilt} from that line"
            yield _fstab_fault(f"{where}: {spoilt}", wanted, fix, fixable=False)
        elif falls_short(line.size, state.memory, wanted.size):
            size_text = f"size={line.size}" if line.size else "no size"
            options = with_size(line.options, format_size(wanted.size))
            fix = f"set the options of {where} of /etc/fstab to {options}"
            yield _fstab_fault(f"{where}: {size_text}", wanted, fix, possible)
    for other in state.boot or ():
        if other.state == "ignored" or falls_short(other.size, state.memory, wanted.size):
            yield _boot_fault(other, wanted)


def _boot_fault(line: BootLine, wanted: ShmWanted) -> Fault:
    """Return the fault of a unit, a drop-in or rc.local that gives /dev/shm a size."""
    option = f"size={format_size(wanted.size)}"
    ignored = line.state == "ignored"
    cause = "it runs after the boot has mounted /dev/shm as /etc/fstab specifies"
    if ignored:
        cause = (
            "systemd mounts /dev/shm itself and refuses a mount unit for it ('Cannot create mount "
            "unit for API file system'): /etc/fstab decides"
        )
    elif line.state == "waits":
        cause = f"no target starts it at boot; once it runs, /dev/shm has size={line.size}"
    change = f"write {option} in line {line.line} of {quote(line.path)}"
    return Fault(
        subject=Path(line.path),
        found=f"line {line.line}: {line.text}",
        wanted="no size for /dev/shm outside /etc/fstab" if ignored else option,
        cause=cause,
        fix=f"remove line {line.line} of {quote(line.path)}" if ignored else change,
        fixable=False,
        severity=None if line.state == "runs" else "info",
    )


def _spoilt(line: FstabLine) -> str:
    """Return the options with which a boot gives something else than a /dev/shm for all."""
    return ",".join(
        option
        for option in line.options.split(",")
        if option in ("ro", "noauto")
        or option.startswith(("nr_blocks=", "#"))
        or (option.startswith("mode=") and option.removeprefix("mode=").lstrip("0") != MODE)
    )


def _fstab_fault(size_text: str, wanted: ShmWanted, fix: str, fixable: bool = True) -> Fault:
    return Fault(
        subject=Path("/etc/fstab"),
        found=size_text,
        wanted=f"size={format_size(wanted.size)}",
        fix=fix,
        fixable=fixable,
    )


@rule(
    "shm.permissions",
    "error",
    step="shm",
    always=True,
    stops="every",
    why="without write permission NCCL and DataLoader workers of other users cannot create "
    "their segments; without the sticky bit users can delete each other's",
    manual="run chown 0:0 /dev/shm and chmod 1777 /dev/shm",
    repair="Sets owner and mode of /dev/shm.",
    alone="Run the job in a container: docker run --shm-size=SIZE gives it a separate /dev/shm.",
)
def permissions(state: ShmState, wanted: ShmWanted | None) -> Iterator[Fault]:
    """/dev/shm cannot be used by every user, or not safely."""
    if state.mount is not None and "ro" in state.mount.flags:
        yield Fault(
            subject=Path("/dev/shm"),
            found="mounted read-only",
            wanted="mounted read-write",
            cause="no process can create a segment: NCCL stops with 'Error while creating shared "
            "memory segment', DataLoader workers with 'Read-only file system'",
            fix="mount -o remount,rw /dev/shm, and remove ro from its line in /etc/fstab",
            fixable=False,
        )
    mode = state.mode
    if mode is None or (mode.mode, mode.uid, mode.gid) == (MODE, 0, 0):
        return
    yield Fault(
        subject=Path("/dev/shm"),
        found=f"mode {mode.mode}, owner {mode.uid}:{mode.gid}",
        wanted=f"mode {MODE}, owner 0:0",
        fix=f"chown 0:0 /dev/shm && chmod {MODE} /dev/shm",
        stops=not mode.mode.endswith(("3", "7")),
    )
