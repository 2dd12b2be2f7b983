"""Environment rules: a launcher's shell has what is wanted, and nothing else says otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from drift.bashrc import (
    BASHRC,
    SHARED,
    Values,
    are_placed,
    deciding,
    is_network_home,
    last_value,
)
from drift.ifname import CONF, by_hand, is_right, is_written, managed
from drift.rules.rule import Fault, rule
from drift.training_user import missing_user
from drift.users_settings import everywhere
from facts.inherited import Process
from facts.node import NodeState
from facts.start_files import ENV_FILE, Setting
from inventories.fields import IFNAME
from inventories.schema import NodeWanted

_UNREACHED = (
    "a launcher that logs in by ssh, or pdsh, never gets it: each node then has another one"
)
_KINDS = {
    "shell": "end this shell and log in again",
    "server": "end it (screen -X quit, tmux kill-server) and start it anew: its windows "
    "get what it has",
    "trainer": "let it end, and start it from a new session",
}


@rule("env.user-missing", "error", whole=True)
def user_missing(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The node has no user of the name that is to train."""
    user = missing_user(found)
    if user and (_is_managed(wanted) or (wanted.ssh is not None and wanted.ssh.mesh is True)):
        yield Fault(
            subject=user,
            found="no such user",
            wanted="the user who trains, on every node",
            cause="launchers log in by one name everywhere: there is no home for keys and "
            "environment, and nothing that is read there could be read",
            fix=f"useradd -m -s /bin/bash {user}, with the same uid as on the other nodes; or name "
            "another one: launcher: {user: ...} in the inventory",
            fixable=False,
        )


@rule("env.not-set", "error", whole=True)
def not_set(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A variable of the inventory has no value, or another one, in a launcher's shell."""
    if wanted.env is None or found.env.launcher is None:
        return
    values = managed(found, wanted)
    for name, wish in wanted.env.items():
        value, last = found.env.launcher.get(name), last_value(found.env, name)
        line = deciding(found.env, name)
        if value != wish:
            said = "not set" if value is None else repr(value)
            origin = f" ({line.place})" if line is not None and line.value == value else ""
            yield _not_set_fault(found, (name, wish), f"{said}{origin}", values)
        elif last and not last.ours and last.is_plain and last.value != wish:
            said = f"{last.value!r} in an interactive shell ({last.place})"
            yield _not_set_fault(found, (name, wish), said, values)


def _not_set_fault(
    found: NodeState, wish: tuple[str, str], said: str, values: Values | None
) -> Fault:
    name, value = wish
    hand = by_hand(found, values, name)
    written = (
        f"in {ENV_FILE}, which {BASHRC} reads"
        if is_network_home(found.env)
        else f"at the top of {BASHRC}"
    )
    return Fault(
        subject=name,
        found=said,
        wanted=value,
        cause="processes that a launcher starts here run with another setting than the inventory's",
        fix=hand or f"export {name} {written}",
        fixable=hand is None,
    )


@rule("env.block-outdated", "error", whole=True)
def block_outdated(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """Our block of ~/.bashrc is not what the inventory makes of it, or not where it counts."""
    values = managed(found, wanted) if _is_managed(wanted) else None
    state = found.env
    if values is None or state.bashrc is None or state.settings is None or not state.bashrc.blocks:
        return
    if is_written(found, values):
        return
    texts = [*(each.text for each in state.bashrc.blocks), state.env_file or ""]
    is_shared = is_network_home(state) and not are_placed(state, SHARED)
    yield Fault(
        subject=BASHRC,
        found=f"a block of {sum(map(_lines, texts))} variables"
        + (" of one node, in a home that other nodes may have" if is_shared else ""),
        wanted=f"a block that reads {ENV_FILE}, each node's own"
        if is_shared
        else ", ".join(values) or "no block",
        cause="what left the inventory is still exported, or what came to it is not, or a line of "
        "the user's comes after it",
        fix=f"write the block in {BASHRC} anew",
    )


def _is_managed(wanted: NodeWanted) -> bool:
    return wanted.env is not None or wanted.network is not None


def _lines(block: str) -> int:
    return block.count("\nexport ") + block.count("\nunset ")


@rule("env.left-behind", "warning", whole=True)
def left_behind(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A file of the SSH user has our block, and another user trains by now."""
    for path in found.env.left or () if wanted.launcher and wanted.launcher.user else ():
        yield Fault(
            subject=path,
            found="our block, of a time when its owner trained",
            wanted="no block: another user trains",
            cause="nothing keeps it up to date: it still sets what the inventory said then, or "
            "lets the keys in that the nodes had",
            fix=f"take out the lines from '# >>> gpu-node' to '# <<< gpu-node' in {path}",
            fixable=False,
        )


@rule("env.shell-prints", "warning", whole=True)
def shell_prints(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A start file prints in a shell that ssh starts for a command."""
    told = found.env.prints
    has_mesh = wanted.ssh is not None and wanted.ssh.mesh is True
    is_asked = wanted.env is not None or wanted.workspace is not None or has_mesh
    if told is not None and told.bytes and is_asked:
        yield Fault(
            subject=BASHRC,
            found=f"prints {told.bytes} bytes: {told.first!r}",
            wanted="nothing",
            cause="rsync, scp and sftp take it for their own protocol: copies fail",
            fix=f"in {BASHRC}, or the file that it reads, let only interactive shells print: "
            "case $- in *i*) ... ;; esac",
            fixable=False,
        )


@rule("env.unreached", "warning", whole=True)
def unreached(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A line of ~/.bashrc is below the place where a shell without a terminal leaves the file."""
    state = found.env
    if wanted.env is None or state.bashrc is None or state.bashrc.returns is None:
        return
    values = managed(found, wanted) or {}
    for each in state.settings or ():
        below = each.path == BASHRC and each.line > state.bashrc.returns
        # What we set reaches every shell by our own blocks.
        if below and not each.ours and each.name not in {*values, *wanted.env, IFNAME}:
            yield Fault(
                subject=f"{each.name} ({each.place})",
                found=f"below line {state.bashrc.returns}, where a shell without a terminal leaves",
                wanted="above it, or in the inventory",
                cause=_UNREACHED,
                fix=f"move the line {each.place} to the top of the file, or say env: "
                f"{{{each.name}: ...}} in the inventory",
                fixable=False,
            )


@rule("env.conflict", "warning", whole=True)
def conflict(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """Two places give one variable different values."""
    if wanted.env is None:
        return
    values = managed(found, wanted) or {}
    by_name: dict[str, list[Setting]] = {}
    for each in everywhere(found):
        if each.value is not None and each.is_plain and not _is_ours_to_cure(each, values):
            by_name.setdefault(each.name, []).append(each)
    for name, lines in by_name.items():
        wish = values.get(name)
        different = {each.value: each for each in lines}
        if name == IFNAME:
            different = {
                each.value: each for each in lines if not is_right(found, name, each.value, wish)
            }
            if wish is None:
                continue
        said = [f"{value!r} ({each.place})" for value, each in different.items()]
        if len(said) > 1 or (wish is not None and set(different) - {wish}):
            yield _conflict_fault(name, said, wish)


def _is_ours_to_cure(each: Setting, values: Values) -> bool:
    """Whether our blocks of ~/.bashrc, or our lines of nccl.conf, have the last word."""
    return each.name in values and each.path in (BASHRC, CONF)


def _conflict_fault(name: str, said: list[str], wish: str | None) -> Fault:
    return Fault(
        subject=name,
        found=", ".join(said),
        wanted=repr(wish) if wish is not None else "one value",
        cause="which of them a process gets depends on how it was started: by ssh, by a login, by "
        "systemd, and NCCL's files count only where the environment says nothing",
        fix="keep the line that is meant, and take out the others",
        fixable=False,
    )


@rule("env.stale-process", "warning", whole=True)
def stale_process(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A running session or trainer has another environment than a new one would get."""
    values = managed(found, wanted) if _is_managed(wanted) else None
    for process in found.env.processes or () if values else ():
        said = "; ".join(_stale(found, process, values or {}))
        if said:
            yield Fault(
                subject=f"pid {process.pid} ({process.command})",
                found=said,
                wanted=", ".join(f"{name}={value or ''}" for name, value in (values or {}).items()),
                cause="a process keeps the environment that it was started with, and hands it on: "
                "an edit of ~/.bashrc reaches new sessions alone",
                fix=_KINDS[process.kind],
                fixable=False,
            )


def _stale(found: NodeState, process: Process, values: Values) -> Iterator[str]:
    """Say what a process has otherwise; a shell gets its own from ~/.bashrc when it starts."""
    if process.environment is None:
        yield "an environment that may not be read"
        return
    if process.kind == "shell" and not process.older:
        return
    for name, wish in values.items():
        value = process.environment.get(name)
        if not is_right(found, name, value, wish):
            yield f"{name} not set" if value is None else f"{name}={value}"
