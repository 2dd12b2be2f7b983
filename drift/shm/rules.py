"""Shared memory rules: /dev/shm is large enough, stays so after a boot, and can be used by all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.host.machine import memory_of, trains
from gpu_node.drift.shm.container import run_options
from gpu_node.drift.shm.fstab import kept, new_line, with_size
from gpu_node.drift.shm.rules_docker import LEAST, node_size
from gpu_node.drift.shm.rules_memory import IMPOSSIBLE, half, is_impossible
from gpu_node.drift.units import size
from gpu_node.facts.node import NodeState
from gpu_node.facts.shm.boot import BootLine
from gpu_node.facts.shm.state import FstabLine, ShmState
from gpu_node.inventories.schema import NodeWanted, ShmWanted, format_size

MODE = "1777"
_PROPOSED = f"at least {format_size(LEAST)} (proposed)"
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def _restricted(found: ShmState) -> bool:
    """Whether nothing inside may mount: a container without CAP_SYS_ADMIN."""
    return found.container is not None and not found.container.can_mount


def _is_too_small(found: ShmState, wanted: ShmWanted) -> bool:
    if found.mount is None:
        return False
    if found.mount.fstype != "tmpfs":
        return True
    return found.usage is not None and 0 < found.usage.size < wanted.size  # size=0 has no limit


def _shown(found: ShmState) -> str:
    if found.mount is None:
        return "unreadable"
    if found.mount.layers == 0:
        return "not mounted"
    if found.mount.fstype != "tmpfs":
        return f"a mount of type {found.mount.fstype}"
    return "unreadable" if found.usage is None else size(found.usage.size)


def _is_boot_size(found: ShmState) -> bool:
    """Whether /dev/shm has the size a boot gives without fstab: half of the memory (tmpfs(5)).

    2 % allow for the kernel's count.
    """
    if found.usage is None or found.memory is None:
        return False
    return abs(found.usage.size - found.memory / 2) < 0.02 * found.memory / 2


def _least(node: NodeState, expected: NodeWanted) -> ShmWanted | None:
    """Return the size that is wanted, or the least for any training; None: any will do."""
    if expected.shm is not None:
        return expected.shm
    if not trains(node, expected) or _is_boot_size(node.shm):
        return None
    return ShmWanted.model_construct(size=LEAST)


def proposed_size(node: NodeState, expected: NodeWanted) -> int:
    """Return the size for the inventory, or that of the inventory: not more than half of memory."""
    usable = memory_of(node)
    return min([node_size(expected), *([half(usable)] if usable else [])])


@rule(
    "shm.too-small",
    ("error", "warning"),
    whole=True,
    step="shm",
    because_of=(IMPOSSIBLE,),
    always=True,
    key="shm.size",
    why="Each process uses about 10 MB of /dev/shm for NCCL, DataLoader workers more. NCCL "
    "fails when it is full.",
    manual="Run mount -o remount,size=SIZE /dev/shm.",
    repair="Remounts /dev/shm with the wanted size. Files in it stay.",
    alone="Set NCCL_BUFFSIZE=1048576 and use fewer DataLoader workers, or run the job in a "
    "container: docker run --shm-size=SIZE.",
)
def too_small(node: NodeState, expected: NodeWanted) -> Iterator[Fault]:
    """/dev/shm is smaller than the inventory wants, or too small for any training."""
    found, wanted, least = node.shm, expected.shm, _least(node, expected)
    if least is None or _restricted(found) or not _is_too_small(found, least):
        return
    assert found.mount is not None
    foreign = found.mount.layers > 0 and found.mount.fstype != "tmpfs"
    asked = format_size(wanted.size if wanted else proposed_size(node, expected))
    remount = (
        f"mount -o {','.join(['remount', *kept(found.mount.flags), f'size={asked}'])} /dev/shm"
    )
    mount = f"mount -t tmpfs -o size={asked} tmpfs /dev/shm"
    fix = remount if found.mount.layers else mount
    if foreign:
        fix = f"{found.mount.fstype} is not tmpfs: unmount it first"
    elif wanted is None:
        fix = f"add shm: {{size: {asked}}} to the inventory, and the deploy sets it; or: {fix}"
    yield Fault(
        subject=Path("/dev/shm"),
        found=_shown(found),
        wanted=asked if wanted else _PROPOSED,
        cause="each process takes about 10 MB here for NCCL, DataLoader workers take more; when it "
        "is full NCCL stops with 'Error while creating shared memory segment /dev/shm/nccl-...'",
        fix=fix,
        fixable=wanted is not None and not foreign and not is_impossible(node, expected),
        severity=None if wanted else "warning",
    )


@rule(
    "shm.container",
    ("error", "warning"),
    whole=True,
    because_of=(IMPOSSIBLE,),
    always=True,
    key="shm.size",
    why="A container gets 64 MB of /dev/shm by default, and cannot remount it.",
    manual="Start the container with --shm-size=SIZE, and with --ulimit and -e for what it lacks.",
    alone="Set NCCL_BUFFSIZE=1048576 and use fewer DataLoader workers.",
)
def container(node: NodeState, expected: NodeWanted) -> Iterator[Fault]:
    """/dev/shm is too small and cannot be remounted from inside this container."""
    found, wanted = node.shm, expected.shm
    if found.container is None or not (_restricted(found) and (wanted or trains(node, expected))):
        return
    if not _is_too_small(found, wanted or ShmWanted.model_construct(size=LEAST)):
        return
    proposed = ShmWanted.model_construct(size=node_size(expected))
    enough = expected.model_copy(update={"shm": proposed})
    kind = "" if found.container.kind == "none" else f"{found.container.kind} "
    program = "podman" if found.container.kind == "podman" else "docker"
    yield Fault(
        subject=Path("/dev/shm"),
        found=f"{_shown(found)}, in a {kind}container without CAP_SYS_ADMIN",
        wanted=format_size(wanted.size) if wanted else _PROPOSED,
        cause="a container gets 64 MB by default, and cannot remount it; "
        "NCCL_SHM_DISABLE=1 would only hide this and cost speed",
        fix=f"start the container with: {program} run {' '.join(run_options(node, enough))}; "
        "--ipc=host in place of --shm-size gives it the host's /dev/shm; or set default-shm-size "
        "in the host's /etc/docker/daemon.json",
        fixable=False,
        severity=None if wanted else "warning",
    )


@rule(
    "shm.not-persistent",
    ("warning", "info"),
    whole=True,
    step="shm",
    because_of=(IMPOSSIBLE,),
    under="shm.too-small",
    why="The next boot mounts /dev/shm with another size.",
    manual="Set size=SIZE in the line for /dev/shm in /etc/fstab.",
    repair="Writes the line for /dev/shm in /etc/fstab.",
    alone="After a boot, check the size: df -h /dev/shm.",
)
def not_persistent(node: NodeState, expected: NodeWanted) -> Iterator[Fault]:
    """/etc/fstab does not give /dev/shm the wanted size, so a reboot loses it."""
    found, wanted = node.shm, expected.shm
    if wanted is None or _restricted(found) or found.fstab is None:
        return
    possible = not is_impossible(node, expected)
    # Writing the wanted size to fstab would make it smaller.
    enough = _is_boot_size(found) and not _is_too_small(found, wanted)
    enough = enough or any(
        each.state == "runs" and _is_enough(each.size, found, wanted) for each in found.boot or ()
    )
    if not found.fstab and not enough:
        add = new_line(format_size(wanted.size), found.mount.flags if found.mount else ())
        yield _fstab_fault("no line for /dev/shm", wanted, f"add to /etc/fstab: {add}", possible)
    for line in found.fstab:
        if found.memory is None and (not line.size or line.size.endswith("%")):
            continue  # unknown: shm.unreadable reports it
        where = f"line {line.line}"
        if line.fstype != "tmpfs":
            fix = "that line mounts something else over /dev/shm: remove it"
            yield _fstab_fault(f"{where}: type {line.fstype}", wanted, fix, fixable=False)
        elif spoilt := _spoilt(line):
            fix = f"remove {spoilt} from that line"
            yield _fstab_fault(f"{where}: {spoilt}", wanted, fix, fixable=False)
        elif not _is_enough(line.size, found, wanted):
            size_text = f"size={line.size}" if line.size else "no size"
            options = with_size(line.options, format_size(wanted.size))
            fix = f"set the options of {where} of /etc/fstab to {options}"
            yield _fstab_fault(f"{where}: {size_text}", wanted, fix, possible)
    for other in found.boot or ():
        if other.state == "ignored" or not _is_enough(other.size, found, wanted):
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
        cause="the next boot mounts /dev/shm as /etc/fstab specifies, or with half of the memory",
        fix=fix,
        fixable=fixable,
    )


def _is_enough(size_text: str, found: ShmState, wanted: ShmWanted) -> bool:
    """Whether the size that a line gives is as large as wanted; 0 is without a limit."""
    given = _bytes(size_text, found.memory)
    return given is not None and not 0 < given < wanted.size


def _bytes(size_text: str, memory: int | None) -> int | None:
    """Return the bytes of a `size=` (8G, 8388608k, 50%, see tmpfs(5)); None if there is none."""
    match = re.fullmatch(r"(\d+)([kmgt%]?)", size_text.lower() or "50%")
    if match is None:
        return None
    count, unit = int(match[1]), match[2]
    if unit == "%":
        return None if memory is None else memory * count // 100
    return count * _FACTORS[unit]


@rule(
    "shm.permissions",
    "error",
    step="shm",
    always=True,
    why="NCCL and DataLoader workers of some users cannot create segments, or users can "
    "delete each other's.",
    manual="Run chown 0:0 /dev/shm and chmod 1777 /dev/shm.",
    repair="Sets owner and mode of /dev/shm.",
    alone="Run the job in a container: docker run --shm-size=SIZE gives it a separate /dev/shm.",
)
def permissions(found: ShmState, wanted: ShmWanted | None) -> Iterator[Fault]:
    """/dev/shm cannot be used by every user, or not safely."""
    if found.mount is not None and "ro" in found.mount.flags:
        yield Fault(
            subject=Path("/dev/shm"),
            found="mounted read-only",
            wanted="mounted read-write",
            cause="no process can create a segment: NCCL stops with 'Error while creating shared "
            "memory segment', DataLoader workers with 'Read-only file system'",
            fix="mount -o remount,rw /dev/shm, and remove ro from its line in /etc/fstab",
            fixable=False,
        )
    mode = found.mode
    if mode is None or (mode.mode, mode.uid, mode.gid) == (MODE, 0, 0):
        return
    yield Fault(
        subject=Path("/dev/shm"),
        found=f"mode {mode.mode}, owner {mode.uid}:{mode.gid}",
        wanted=f"mode {MODE}, owner 0:0",
        cause="without write permission NCCL and DataLoader workers of other users cannot create "
        "their segments; without the sticky bit users can delete each other's",
        fix=f"chown 0:0 /dev/shm && chmod {MODE} /dev/shm",
    )
