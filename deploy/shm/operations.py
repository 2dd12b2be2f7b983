"""Operations on /dev/shm.

pyinfra's server.mount compares option strings, so it remounts a size in every run, and if the path
is not mounted it uses another mount of the same device (#1611); files.line appends a second fstab
line when a size changes (#1714).
"""

import re
from collections.abc import Generator
from functools import partial

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, operation

from gpu_node.deploy.engine.run import of_operation
from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.files.operations import Commands, edited
from gpu_node.deploy.files.replace import unread
from gpu_node.drift.shm import daemon_json
from gpu_node.drift.shm.fstab import falls_short, new_line
from gpu_node.drift.shm.fstab import with_size as line_with_size
from gpu_node.drift.shm.segments import is_certain, orphans, stale
from gpu_node.facts.ask.execute import execute
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.shm.segments import LOOK
from gpu_node.facts.shm.state import SharedMemory, ShmState, size_in
from gpu_node.inventories.escape import visible
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.inventories.plurals import few

FSTAB = "/etc/fstab"
# The text is Latin-1: without the flag ASCII, bytes of other encodings would count as blanks.
# Device, point and type (another type is not ours); options, which may be missing; the rest.
_LINE = re.compile(
    r"([ \t]*[^#\s]\S*[ \t]+/dev/shm/?[ \t]+tmpfs)(?:([ \t]+)([^\s#]\S*))?(\s.*)?",
    re.DOTALL | re.ASCII,
)
# Refuse what findmnt finds wrong, unless it found the old file wrong already. util-linux before
# 2.29 (CentOS 7) has no --verify: there only our own tests check the edit.
_VERIFY = """
findmnt --help 2>&1 | grep -q -- --verify || exit 0
findmnt --verify --tab-file "$2" >/dev/null 2>&1 || exit 0
findmnt --verify --tab-file "$1" 2>&1
"""


def with_size(fstab: str, size: int, memory: int | None = None, flags: tuple[str, ...] = ()) -> str:
    """Return fstab's text with `size=` in each /dev/shm line that gives less, or a new line."""
    lines = re.split(r"(?<=\n)", fstab)
    matches = [_LINE.fullmatch(line) for line in lines]
    if any(matches):
        return "".join(
            _resized(match, size, memory) if match else line
            for line, match in zip(lines, matches, strict=True)
        )
    gap = "" if fstab.endswith("\n") or not fstab else "\n"
    return f"{fstab}{gap}{new_line(format_size(size), flags)}\n"


def _resized(line: re.Match[str], size: int, memory: int | None) -> str:
    device_to_type, gap, options, rest = line.groups(default="")
    if not falls_short(size_in(options), memory, size):
        return line[0]
    return f"{device_to_type}{gap or ' '}{line_with_size(options, format_size(size))}{rest}"


def _state() -> ShmState:
    return ShmState.known(host.get_fact(SharedMemory))


@operation()
def fstab(size: int) -> Commands:
    """
    Raise the size of /dev/shm in /etc/fstab; every other byte of the file stays.

    + size: the least, in bytes; a line that gives more stays

    **Example:**

    .. code:: python

        shm.fstab(name="Keep /dev/shm at 8G over a boot", size=8 << 30)
    """
    state = _state()
    flags = state.mount.flags if state.mount else ()
    edit = partial(with_size, size=size, memory=state.memory, flags=flags)
    yield from edited(FSTAB, edit, f"gives /dev/shm {format_size(size)}", check=_VERIFY)


@operation()
def size(size: int) -> Commands:
    """
    Grow the tmpfs at /dev/shm, or mount one; it is never made smaller.

    + size: in bytes
    """
    state = _state()
    mount, usage = state.mount, state.usage
    if mount is None or (mount.layers and usage is None):
        # It may be larger than wanted: a remount would make it smaller.
        yield unread("/dev/shm", "its size is unknown")
    elif mount.layers and usage and (usage.size == 0 or usage.size >= size):
        limit = f"{usage.size} bytes" if usage.size else "no limit"
        host.noop(f"/dev/shm has {limit}")
    else:
        yield script("remount", kib=str(-(-size // 1024)), flags=",".join(mount.flags))


@operation()
def permissions(mode: str) -> Generator[StringCommand, None, None]:
    """
    Give /dev/shm to root, with a mode.

    + mode: octal, eg ``1777``
    """
    now = _state().mode
    if now is not None and (now.mode, now.uid, now.gid) == (mode, 0, 0):
        host.noop(f"/dev/shm has mode {mode}")
        return
    # Five digits: with four, GNU chmod keeps a directory's setgid bit.
    yield StringCommand("chown 0:0 /dev/shm && chmod", QuoteString(f"0{mode}"), "/dev/shm")


# dockerd checks a file without starting since 23.0.
_VALIDATE = """
command -v dockerd >/dev/null 2>&1 && dockerd --help 2>&1 | grep -q -e --validate || exit 0
dockerd --validate --config-file "$1" 2>&1
"""


@operation()
def docker(
    path: str, pid: int, shm_size: str = "", ulimits: dict[str, int] | None = None
) -> Commands:
    """
    Set what docker gives to containers by default, and let it read its file again.

    + path: of daemon.json
    + pid: of the running dockerd, which is never restarted
    + shm_size: eg ``8G``; empty leaves it as it is
    + ulimits: soft and hard limits, eg ``{"memlock": -1}``
    """
    edit = partial(_daemon_json, shm_size=shm_size, ulimits=ulimits or {})
    new = yield from edited(path, edit, check=_VALIDATE, shown=daemon_json.ours)
    if new is not None:
        yield script("docker_reload", pid=str(pid))


def _daemon_json(text: str, shm_size: str, ulimits: dict[str, int]) -> str:
    """Return daemon.json with these defaults; a value that is larger stays."""
    known = daemon_json.values_of(text)
    values: dict[str, object] = {}
    has = daemon_json.size_of(known.get(daemon_json.SHM))
    if shm_size and (has is None or has < (daemon_json.size_of(shm_size) or 0)):
        values[daemon_json.SHM] = shm_size
    limits = daemon_json.soft_limits(known.get(daemon_json.ULIMITS))
    low = {
        name: each
        for name, each in ulimits.items()
        if name not in limits or 0 <= limits[name] < each or each < 0 <= limits[name]
    }
    if low:
        values[daemon_json.ULIMITS] = daemon_json.ulimits(low, known.get(daemon_json.ULIMITS))
    return daemon_json.with_values(text, values)


SECONDS = 120


def _unseen() -> FunctionCommand:
    """Return the command that fails if it is unknown what is in use."""
    return unread("/dev/shm", "the node did not report which processes use it")


@operation()
def segments(allow_disruption: bool = False) -> Generator[FunctionCommand, None, None]:
    """
    Remove the segments of /dev/shm that no live process has open or mapped, each by its name.

    + allow_disruption: even while a process has a libnccl mapped or holds a GPU
    """
    use = _state().use
    if use is None:
        yield _unseen()
        return
    unused = stale(use)
    # Files that an orphan holds are unused as soon as it is ended.
    ended = [orphan for orphan in orphans(use) if is_certain(orphan)]
    if not unused and not any(each.segments for each in ended):
        host.noop("/dev/shm has no unused segment")
        return
    lines = [f"{each.inode} {each.modified} {each.name}" for each in unused]
    yield FunctionCommand(remove, [lines, "yes" if allow_disruption else "no"], {})


def remove(state: State, host: Host, lines: list[str], allow: str) -> bool:
    """Remove segments, each given by inode, time and name, and report those that are now in use."""
    done, printed = _run(state, host, "segments", lines, look=LOOK, place="/dev/shm", allow=allow)
    kept = [line.removeprefix("kept ") for line in printed if line.startswith("kept ")]
    if kept:
        names = ", ".join(few(kept, 5, "..."))
        logger.warning(f"{host.print_prefix}in use again, so it stays: {visible(names)}")
    return done


@operation()
def trainers(pids: list[int]) -> Generator[FunctionCommand, None, None]:
    """
    End training processes whose launcher is gone, and the processes that they started.

    + pids: the ones found; each is checked again, and identified by its start time
    """
    use = _state().use
    if use is None:
        yield _unseen()
        return
    certain = [orphan for orphan in orphans(use) if orphan.pid in pids and is_certain(orphan)]
    if not certain:
        host.noop("these processes are gone")
        return
    yield FunctionCommand(end, [[f"{each.pid} {each.start} {each.parent}" for each in certain]], {})


def end(state: State, host: Host, lines: list[str]) -> bool:
    """End processes, each given by its pid, the start that it must have, and its parent."""
    return _run(state, host, "trainers", lines, gn_process=PROCESS)[0]


def _run(
    state: State, host: Host, name: str, lines: list[str], **variables: str
) -> tuple[bool, list[str]]:
    """Run a script that reads `lines`; return whether it succeeded, and its output."""
    command = script(name, **variables)
    done, output = execute(host.connector, command, SECONDS, of_operation(state, host), lines)
    if not done:
        logger.error(f"{host.print_prefix}{visible(output.stderr)}")
    return done, output.stdout_lines
