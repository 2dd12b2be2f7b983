"""Shared memory rule about containers: what docker and podman give to one by default."""

import re
from collections.abc import Iterator
from shlex import quote
from typing import Any, cast

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path, Pid, RootOnly, Thing
from gpu_node.drift.host.machine import memory_of
from gpu_node.drift.shm.daemon_json import SHM, ULIMITS, size_of, soft_limits, values_of
from gpu_node.drift.shm.rules_memory import half
from gpu_node.drift.ssh.sudo import reading_as_root, ssh_user
from gpu_node.drift.units import at_least, limit, size
from gpu_node.facts.limits.state import Item
from gpu_node.facts.node import NodeState
from gpu_node.facts.shm.docker import Daemon, GpuContainer, PodmanSize
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.inventories.wanted import NodeWanted, ShmWanted

# What docker (moby, daemon/config: DefaultShmSize) and podman (containers.conf(5)) give.
DEFAULT = 64 << 20
# NCCL's user guide starts containers with --shm-size=1g.
LEAST = 1 << 30
_KEY = "docker: {default_shm_size: 8G}"
_FLAGS = {SHM: "--default-shm-size", ULIMITS: "--default-ulimit"}
_IDLE = "while no container runs"
_CONTAINER_ID = re.compile(r"[0-9a-f]{12,64}")


@check("shm.docker-default")
def docker_default(at: At) -> Iterator[Fault]:
    docker, wanted = at.node.shm.docker, within_memory(at.node, at.wanted)
    if has_gpus(at.node, wanted) and docker is not None:
        for daemon in docker.daemons:
            yield from _daemon(daemon, wanted)
        if docker.podman is not None:
            yield from _podman(docker.podman, wanted)
    for container in at.node.shm.containers or ():
        if container.shm is not None and container.shm < LEAST:
            yield _container(container, wanted)


@check("shm.containers-unseen")
def containers_unseen(at: At) -> Iterator[Fault]:
    if at.node.shm.closed and has_gpus(at.node, at.wanted):
        yield Fault(
            subject=RootOnly("shm.containers"),
            found=f"only root sees the mount namespaces of {at.node.shm.closed} processes",
            wanted="an answer",
            cause=f"the report asks as {ssh_user(at.node) or 'the SSH user'}, who is not root",
            fix=reading_as_root(at.node, at.nodes.via),
        )


def has_gpus(state: NodeState, wanted: NodeWanted) -> bool:
    """Whether containers of a node may have GPUs."""
    return bool(state.driver.own_devices) or wanted.gpu is not None


def _daemon(daemon: Daemon, wanted: NodeWanted) -> Iterator[Fault]:
    try:
        if daemon.problem:
            raise ValueError(daemon.problem)
        values = values_of(daemon.text)
    except ValueError as error:
        yield Fault(
            subject=Path(daemon.path),
            found=f"not readable: {error}",
            wanted="a JSON object",
            cause="docker does not start with a file that it cannot read",
            fix=f"correct {quote(daemon.path)}",
            fixable=False,
            severity="error",
        )
        return
    yield from _shm(daemon, values, wanted)
    yield from _ulimits(daemon, values, wanted)
    yield from _waiting(daemon, values, wanted)


def _shm(daemon: Daemon, values: dict[str, Any], wanted: NodeWanted) -> Iterator[Fault]:
    expected = wanted.docker.default_shm_size if wanted.docker else None
    flags = [flag.value for flag in daemon.flags if flag.name == _FLAGS[SHM]]
    given = flags[-1] if flags else values.get(SHM)
    default = "docker's default" + ("" if daemon.text is not None else "; there is no such file")
    has = DEFAULT if given is None else size_of(given)
    if has is None or has >= (expected or LEAST):
        return
    asked = format_size(expected or node_size(wanted))
    fixable, fix = _repair(daemon, expected is not None, SHM, f'"{SHM}": "{asked}"')
    yield Fault(
        subject=_subject(daemon),
        found=f"{SHM} {size(has)}" + (f", {default}" if given is None else ""),
        wanted=asked if expected else f"at least {format_size(LEAST)}",
        fix=fix,
        fixable=fixable,
    )


def node_size(wanted: NodeWanted) -> int:
    """Return the size of /dev/shm that the inventory names, or the one that is proposed."""
    return wanted.shm.size if wanted.shm else 8 << 30


def within_memory(state: NodeState, wanted: NodeWanted) -> NodeWanted:
    """Return what is wanted with a size of /dev/shm that the memory has."""
    usable = memory_of(state)
    if usable is None or node_size(wanted) <= usable:
        return wanted
    return wanted.model_copy(update={"shm": ShmWanted.model_construct(size=half(usable))})


def wanted_ulimits(wanted: NodeWanted) -> dict[str, int]:
    """Return the limits that the inventory wants of containers, -1 for unlimited."""
    named = wanted.docker.default_ulimits if wanted.docker else None
    return _numbers(named)


def _numbers(limits: object) -> dict[str, int]:
    numbers = {name: getattr(limits, name, None) for name in ("nofile", "memlock")}
    return {
        name: -1 if value == "unlimited" else int(value)
        for name, value in numbers.items()
        if value is not None
    }


def _ulimits(daemon: Daemon, values: dict[str, Any], wanted: NodeWanted) -> Iterator[Fault]:
    named = wanted_ulimits(wanted)
    # A container is a place to train in as the node itself is.
    asked = named or _numbers(wanted.limits)
    given = soft_limits(values.get(ULIMITS))
    for flag in daemon.flags:
        name, _, value = flag.value.partition("=")
        if flag.name == _FLAGS[ULIMITS] and re.fullmatch(r"-?\d{1,18}(:-?\d{1,18})?", value):
            given[name] = int(value.partition(":")[0])
    inherited = {name: -1 if has == "unlimited" else has for name, has in daemon.limits.items()}
    has = {**inherited, **given}
    low = [name for name in asked if name in has and not _reaches(has[name], asked[name])]
    if not low:
        return
    entries = ", ".join(
        f'"{name}": {{"Name": "{name}", "Soft": {asked[name]}, "Hard": {asked[name]}}}'
        for name in low
    )
    fixable, fix = _repair(daemon, bool(named), ULIMITS, f'"{ULIMITS}": {{{entries}}}')
    yield Fault(
        subject=_subject(daemon),
        found=", ".join(f"{name} {_limit(has[name], name)}" for name in low) + " for containers",
        wanted=", ".join(f"{name} {_limit(asked[name], name)}" for name in low),
        cause="a container that names no --ulimit has these limits: 'Too many open files', or "
        "InfiniBand memory that cannot be registered",
        fix=fix,
        fixable=fixable,
    )


def _reaches(has: int, asked: int) -> bool:
    return at_least(*("unlimited" if each < 0 else each for each in (has, asked)))


def _limit(value: int, name: str) -> str:
    return limit("unlimited" if value < 0 else value, cast(Item, name))


def _subject(daemon: Daemon) -> Path:
    return Path(daemon.path)


def conflict(daemon: Daemon, key: str) -> str:
    """Return where docker's command line sets a key of daemon.json; empty if it does not.

    With the key in both places docker does not start.
    """
    flag = _FLAGS[key]
    for unit in daemon.units:
        if flag in unit.text:
            return f"{flag} in line {unit.line} of {quote(unit.path)}"
    is_given = any(each.name == flag for each in daemon.flags)
    return f"{flag} where docker is started with it" if is_given else ""


def _repair(daemon: Daemon, is_named: bool, key: str, entry: str) -> tuple[bool, str]:
    """Return whether the deploy sets a key of daemon.json, and what does otherwise."""
    if where := conflict(daemon, key):
        return False, (
            f"change {where}, then restart docker while no container runs; the same key in "
            "daemon.json would keep docker from starting"
        )
    after = {
        "root": "systemctl reload docker"
        if key == SHM
        else "restart docker while no container runs",
        "snap": f"snap restart docker {_IDLE}",
        "rootless": "systemctl --user restart docker, as its user",
    }[daemon.kind]
    manual = f"write {entry} into {quote(daemon.path)}, then {after}"
    if daemon.kind != "root":
        return False, manual
    if daemon.pid is None:
        return False, f"docker does not run: {manual.partition(', then')[0]}, or start it first"
    if not is_named:
        return False, f"{manual}; or name it in the inventory: {_KEY}"
    return True, manual


def _waiting(daemon: Daemon, values: dict[str, Any], wanted: NodeWanted) -> Iterator[Fault]:
    if daemon.pid is None or not daemon.is_later or not wanted_ulimits(wanted):
        return
    if values.get(ULIMITS):
        yield Fault(
            subject=_subject(daemon),
            found=f"{ULIMITS} in a file that is newer than the running docker",
            wanted="read by docker",
            cause="docker reads default-ulimits only when it starts; a reload reads only "
            "default-shm-size of these",
            fix="restart docker while no container runs; until then: docker run --ulimit",
            fixable=False,
            severity="info",
        )


def _podman(sizes: tuple[PodmanSize, ...], wanted: NodeWanted) -> Iterator[Fault]:
    decides = sizes[-1] if sizes else None
    has = size_of(decides.value) if decides else DEFAULT
    if has is None or has >= LEAST:
        return
    asked = format_size(node_size(wanted)).lower()
    yield Fault(
        subject=Path(decides.path) if decides else Thing("podman"),
        found=f"shm_size {size(has)}, line {decides.line}"
        if decides
        else f"shm_size {size(has)}, podman's default: no containers.conf sets it",
        wanted=f"at least {format_size(LEAST)}",
        fix=f'write shm_size = "{asked}" under [containers] into /etc/containers/containers.conf; '
        f"or start each container with podman run --shm-size={asked}",
        fixable=False,
    )


def _container(each: GpuContainer, wanted: NodeWanted) -> Fault:
    known = _CONTAINER_ID.findall(each.cgroup)
    about = f"container {known[-1][:12]}" if known else "a container"
    program = "podman" if "libpod" in each.cgroup else "docker"
    return Fault(
        subject=Pid(each.pid, each.name),
        found=f"{about} has GPUs and {size(each.shm or 0)} of /dev/shm",
        wanted=f"at least {format_size(LEAST)}",
        fix=f"a running container keeps its size: create it again with {program} run "
        f"--shm-size={format_size(node_size(wanted)).lower()}",
        fixable=False,
    )
