"""Shared memory rules: /dev/shm is large enough, stays so after a boot, and can be used by all."""

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.host.machine import is_container, memory_of, trains
from gpu_node.drift.shm.container import run_options
from gpu_node.drift.shm.fstab import falls_short, kept, new_line, with_size
from gpu_node.drift.shm.rules_docker import DEFAULT, LEAST, node_size, within_memory
from gpu_node.drift.shm.rules_memory import half, is_impossible
from gpu_node.drift.units import size
from gpu_node.facts.node import NodeState
from gpu_node.facts.shm.boot import BootLine
from gpu_node.facts.shm.state import FstabLine, ShmState
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.inventories.wanted import NodeWanted, ShmWanted

MODE = "1777"
# What starts a container, and where its host sets the size for all.
_MANAGERS = {
    "docker": ("docker run", "default-shm-size in /etc/docker/daemon.json"),
    "podman": ("podman run", "shm_size under [containers] in /etc/containers/containers.conf"),
}
# The fix of a size that the node's memory does not have: no command that sets it.
_LOWER = "lower shm.size first, see shm.above-memory"


def _restricted(state: ShmState) -> bool:
    """Whether nothing inside may mount: a container without CAP_SYS_ADMIN."""
    return state.container is not None and not state.container.can_mount


def _is_too_small(state: ShmState, wanted: ShmWanted) -> bool:
    if state.mount is None:
        return False
    if state.mount.fstype != "tmpfs":
        return True
    return state.usage is not None and 0 < state.usage.size < wanted.size  # size=0 has no limit


def _has_more(state: ShmState, wanted: ShmWanted) -> bool:
    """Whether a tmpfs has more than is wanted; size=0 has no limit."""
    if state.mount is None or state.mount.fstype != "tmpfs" or state.usage is None:
        return False
    return state.usage.size == 0 or state.usage.size > wanted.size


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


@check("shm.too-small")
def too_small(at: At) -> Iterator[Fault]:
    state, wanted, least = at.node.shm, at.wanted.shm, _least(at.node, at.wanted)
    if least is None or _restricted(state) or not _is_too_small(state, least):
        return
    assert state.mount is not None
    foreign = state.mount.layers > 0 and state.mount.fstype != "tmpfs"
    asked = format_size(wanted.size if wanted else proposed_size(at.node, at.wanted))
    remount = (
        f"mount -o {','.join(['remount', *kept(state.mount.flags), f'size={asked}'])} /dev/shm"
    )
    mount = f"mount -t tmpfs -o size={asked} tmpfs /dev/shm"
    fix = remount if state.mount.layers else mount
    if is_impossible(at.node, at.wanted):
        fix = _LOWER
    elif foreign:
        fix = f"{state.mount.fstype} is not tmpfs: unmount it first"
    key = f"add shm: {{size: {asked}}} to the inventory, and the deploy sets it"
    yield Fault(
        subject=Path("/dev/shm"),
        found=_shown(state),
        wanted=asked if wanted else f"at least {format_size(least.size)} (proposed)",
        fix=fix,
        deploy="" if wanted or foreign else key,
        fixable=wanted is not None and not foreign and fix != _LOWER,
        severity=None if wanted or _is_tiny(state) else "warning",
        stops=_is_tiny(state),
    )


@check("shm.container")
def container(at: At) -> Iterator[Fault]:
    state, wanted = at.node.shm, at.wanted.shm
    if state.container is None or not (
        _restricted(state) and (wanted or trains(at.node, at.wanted))
    ):
        return
    if not _is_too_small(state, wanted or ShmWanted.model_construct(size=LEAST)):
        return
    fitting = node_size(within_memory(at.node, at.wanted))
    proposed = ShmWanted.model_construct(size=fitting)
    enough = at.wanted.model_copy(update={"shm": proposed})
    kind = "" if state.container.kind == "none" else f"{state.container.kind} "
    program, default = _MANAGERS["podman" if state.container.kind == "podman" else "docker"]
    options = run_options(at.node, enough)
    # PAM lowers the soft limit of a login to 1024, whatever its sshd was started with.
    has_login = at.node.ssh.reached is not None and any("nofile=" in each for each in options)
    then = ", then run the deploy, which raises the soft limit of a login" if has_login else ""
    yield Fault(
        subject=Path("/dev/shm"),
        found=f"{_shown(state)}, in a {kind}container without CAP_SYS_ADMIN",
        wanted=format_size(wanted.size) if wanted else f"at least {format_size(LEAST)} (proposed)",
        fix=f"start the container with: {program} {' '.join(options)}{then}; "
        f"--ipc=host in place of --shm-size gives it the host's /dev/shm; or set {default} on the "
        "host",
        severity=None if wanted or _is_tiny(state) else "warning",
        stops=_is_tiny(state),
    )


@check("shm.not-persistent")
def not_persistent(at: At) -> Iterator[Fault]:
    state, wanted = at.node.shm, at.wanted.shm
    if wanted is None or _restricted(state) or state.fstab is None:
        return
    if is_container(at.node) and _has_more(state, wanted):
        return  # its manager gave it that, whatever fstab has
    possible = not is_impossible(at.node, at.wanted)
    # Writing the wanted size to fstab would make it smaller.
    enough = _boot_gives(at.node, wanted) or any(
        each.state == "runs" and not falls_short(each.size, state.memory, wanted.size)
        for each in state.boot or ()
    )
    if not state.fstab and not enough:
        add = new_line(format_size(wanted.size), state.mount.flags if state.mount else ())
        add = f"add to /etc/fstab, on a line of its own: {add}"
        yield _fstab_fault("no line for /dev/shm", wanted, add if possible else _LOWER, possible)
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
            fix = fix if possible else _LOWER
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


@check("shm.permissions")
def permissions(at: At[ShmState, ShmWanted | None]) -> Iterator[Fault]:
    if at.here.mount is not None and "ro" in at.here.mount.flags:
        yield Fault(
            subject=Path("/dev/shm"),
            found="mounted read-only",
            wanted="mounted read-write",
            cause="no process can create a segment: NCCL stops with 'Error while creating shared "
            "memory segment', DataLoader workers with 'Read-only file system'",
            fix="mount -o remount,rw /dev/shm, and remove ro from its line in /etc/fstab",
            fixable=False,
        )
    mode = at.here.mode
    if mode is None or (mode.mode, mode.uid, mode.gid) == (MODE, 0, 0):
        return
    yield Fault(
        subject=Path("/dev/shm"),
        found=f"mode {mode.mode}, owner {mode.uid}:{mode.gid}",
        wanted=f"mode {MODE}, owner 0:0",
        fix=f"chown 0:0 /dev/shm && chmod {MODE} /dev/shm",
        stops=not mode.mode.endswith(("3", "7")),
    )
