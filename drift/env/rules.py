"""Environment rules: a launcher's shell has what is wanted, and nothing else says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.finding import Who
from gpu_node.drift.engine.rule import Fault, on_node, rule
from gpu_node.drift.engine.subject import Path, Pid, User, Variable
from gpu_node.drift.env.bashrc import (
    BASHRC,
    SHARED,
    Values,
    are_placed,
    deciding,
    is_network_home,
    last_value,
    users_lines,
)
from gpu_node.drift.env.training_user import missing_user
from gpu_node.drift.env.user_settings import editor, everywhere
from gpu_node.drift.network.ifname import CONF, is_right, is_written, managed, manual_fix
from gpu_node.facts.env.inherited import Process
from gpu_node.facts.env.start_files import ENV_FILE, Setting
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.schema import NodeWanted

_KINDS = {
    "shell": "end this shell and log in again",
    "server": "end it (screen -X quit, tmux kill-server) and start it again: its "
    "windows inherit its environment",
    "trainer": "let it end, and start it from a new session",
}


@rule(
    "env.user-missing",
    "error",
    whole=True,
    key="launcher.user",
    stops="every",
    why="launchers log in with one name everywhere: this node has no home for keys and "
    "environment, and nothing in it can be read",
    manual="create the user with the same uid as on the other nodes, or name another user in "
    "the inventory",
    alone="Name a user in the inventory that exists on all nodes: launcher: {user: ...}.",
)
def user_missing(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The node has no user of the name that is to train."""
    user = missing_user(state)
    if user and wanted.launcher and wanted.launcher.user:
        yield Fault(
            subject=User(user),
            found="no such user",
            wanted="the user who trains, on every node",
            fix=f"useradd -m -s /bin/bash {user}, with the same uid as on the other nodes; or name "
            "another one: launcher: {user: ...} in the inventory",
        )


@rule(
    "env.not-writable",
    ("error", "warning"),
    whole=True,
    always=True,
    stops="every",
    why="caches of the hub, Triton and torch are in the home, temporary files and sockets in "
    "/tmp: a job ends with 'Permission denied', 'Read-only file system' or 'No usable "
    "temporary directory'",
    manual="create the home (mkhomedir_helper USER, or mount it), or give it to its user; /tmp "
    "has mode 1777 and is mounted read-write",
    alone="Set HF_HOME, TRITON_CACHE_DIR, XDG_CACHE_HOME and TMPDIR to folders that you can write "
    "to.",
)
def not_writable(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The training user has no home, or cannot write in it or in /tmp."""
    user = state.env.user
    name = user.name if user else "the training user"
    for each in state.env.not_writable or ():
        is_missing = each.problem == "missing"
        is_tmp = each.path == "/tmp"  # noqa: S108 (only compared)
        place = quote(each.path)
        fix = f"look why: ls -ld {place}; findmnt -T {place} (ro: read-only); "
        fix += "chmod 1777 /tmp" if is_tmp else f"chown {quote(name)} {place}"
        if is_missing:
            made = "install -d -m 1777 /tmp" if is_tmp else f"mkhomedir_helper {quote(name)}"
            fix = f"{made}, or mount what is missing there"
        yield Fault(
            subject=Path(each.path),
            found="does not exist" if is_missing else f"not writable by {name}",
            wanted=f"a folder that {name} can write to",
            cause="temporary files and sockets of jobs are there"
            if is_tmp
            else f"the home of {name}: caches of the hub, Triton and torch are there",
            fix=fix,
            severity=None if is_missing or is_tmp else "warning",
        )


@rule(
    "env.block-outdated",
    "error",
    whole=True,
    step="env",
    under="env",
    or_keys=("network.interface",),
    why="a variable that left the inventory is still exported, a new one is missing, or a "
    "line of the user follows the block",
    manual=f"rewrite the block between the gpu-node markers in {BASHRC}",
    repair="Rewrites the marked block in ~/.bashrc of the training user.",
)
def block_outdated(node: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """Our block of ~/.bashrc is not what the inventory makes of it, or not where it counts."""
    values = managed(node, wanted) if _is_managed(wanted) else None
    state = node.env
    if values is None or state.bashrc is None or state.settings is None or not state.bashrc.blocks:
        return
    if is_written(node, values):
        return
    texts = [*(block.text for block in state.bashrc.blocks), state.env_file or ""]
    is_shared = is_network_home(state) and not are_placed(state, SHARED)
    yield Fault(
        subject=Path(BASHRC),
        found=f"a block of {sum(map(_lines, texts))} variables"
        + (" of one node, in a home that other nodes may share" if is_shared else ""),
        wanted=f"a block that reads {ENV_FILE}, separate on each node"
        if is_shared
        else ", ".join(values) or "no block",
    )


@rule(
    "env.not-set",
    "error",
    whole=True,
    step="env",
    because_of=(on_node(block_outdated),),
    under="env",
    why="processes that a launcher starts here run with another setting than the inventory's",
    manual="export the variable at the top of ~/.bashrc",
    repair="Writes a marked block in ~/.bashrc of the training user.",
)
def not_set(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A variable of the inventory has no value, or another one, in a launcher's shell."""
    if wanted.env is None or state.env.launcher is None:
        return
    values = managed(state, wanted)
    for name, expected in wanted.env.items():
        value, last = state.env.launcher.get(name), last_value(state.env, name)
        line = deciding(state.env, name)
        if value != expected:
            shown = "not set" if value is None else repr(value)
            origin = f" ({line.place})" if line is not None and line.value == value else ""
            yield _not_set_fault(state, (name, expected), f"{shown}{origin}", values)
        elif last and not last.ours and last.is_plain and last.value != expected:
            shown = f"{last.value!r} in an interactive shell ({last.place})"
            yield _not_set_fault(state, (name, expected), shown, values)


def _not_set_fault(
    state: NodeState, expected: tuple[str, str], shown: str, values: Values | None
) -> Fault:
    name, value = expected
    hand, line = manual_fix(state, values, name), deciding(state.env, name)
    written = (
        f"in {ENV_FILE}, which {BASHRC} reads"
        if is_network_home(state.env)
        else f"at the top of {BASHRC}"
    )
    # A later line of the user would have the last word.
    others = [each.place for each in users_lines(state.env) if each.name == name]
    remove = f", and remove the line {', '.join(others)}" if others else ""
    return Fault(
        subject=Variable(name),
        found=shown,
        wanted=value,
        fix=hand or f"export {name}={quote(value)} {written}{remove}",
        who=editor(line.path) if hand and line else "user",
        fixable=hand is None,
    )


def _is_managed(wanted: NodeWanted) -> bool:
    return wanted.env is not None or wanted.network is not None


def _lines(block: str) -> int:
    return block.count("\nexport ") + block.count("\nunset ")


@rule(
    "env.left-behind",
    "warning",
    whole=True,
    key="launcher.user",
    why="the block is not updated: it keeps old settings, or accepts old keys",
    manual="remove the lines from '# >>> gpu-node' to '# <<< gpu-node' from the file",
)
def left_behind(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A file of the SSH user has our block, and another user trains by now."""
    for path in state.env.left or () if wanted.launcher and wanted.launcher.user else ():
        yield Fault(
            subject=Path(path),
            found="gpu-node's block, from when its owner was the training user",
            wanted="no block: its owner is not the training user",
            fix=f"remove the lines from '# >>> gpu-node' to '# <<< gpu-node' in {path}",
        )


@rule(
    "env.shell-prints",
    "warning",
    whole=True,
    always=True,
    why="rsync, scp and sftp read that output as their protocol, and copies fail",
    manual=f"in {BASHRC}, or the file that it reads, let only interactive shells print: "
    "case $- in *i*) ... ;; esac",
)
def shell_prints(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A start file prints in a shell that ssh starts for a command."""
    printed = state.env.prints
    if printed is not None and printed.bytes:
        yield Fault(
            subject=Path(BASHRC),
            found=f"prints {printed.bytes} bytes: {printed.first!r}",
            wanted="nothing",
        )


@rule(
    "env.unreached",
    "warning",
    whole=True,
    always=True,
    why="a launcher that logs in by ssh, or pdsh, never gets the variable: each node then has a "
    "different value",
    manual="move the line to the top of ~/.bashrc, or set the variable in the inventory: env: "
    "{NAME: ...}",
)
def unreached(node: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A line of ~/.bashrc is below the place where a non-interactive shell returns."""
    state = node.env
    if state.bashrc is None or state.bashrc.returns is None:
        return
    values = managed(node, wanted) or {}
    for setting in state.settings or ():
        below = setting.path == BASHRC and setting.line > state.bashrc.returns
        # What we set reaches every shell by our own blocks.
        if (
            below
            and not setting.ours
            and setting.name not in {*values, *(wanted.env or ()), IFNAME}
        ):
            yield Fault(
                subject=Variable(setting.name, setting.place),
                found=f"below line {state.bashrc.returns}, where a non-interactive shell returns",
                wanted="above it, or in the inventory",
                fix=f"move the line {setting.place} to the top of the file, "
                f"or set env: {{{setting.name}: ...}} in the inventory",
            )


@rule(
    "env.conflict",
    "warning",
    whole=True,
    always=True,
    why="which value a process gets depends on how it was started (ssh, a login, systemd); "
    "NCCL's files count only for variables that the environment does not set",
    manual="keep the line with the right value, and remove the others",
)
def conflict(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """Two places give one variable different values."""
    values = managed(state, wanted) or {}
    by_name: dict[str, list[Setting]] = {}
    for each in everywhere(state):
        if each.value is not None and each.is_plain and not _is_ours_to_cure(each, values):
            by_name.setdefault(each.name, []).append(each)
    for name, lines in by_name.items():
        expected = values.get(name)
        different = {line.value: line for line in lines}
        if name == IFNAME:
            different = {
                line.value: line
                for line in lines
                if not is_right(state, name, line.value, expected)
            }
            if expected is None:
                continue
        shown = [f"{value!r} ({each.place})" for value, each in different.items()]
        if len(shown) > 1 or (expected is not None and set(different) - {expected}):
            # "administrator" comes before "user": one file of root's is enough.
            yield _conflict_fault(name, shown, expected, min(editor(each.path) for each in lines))


def _is_ours_to_cure(each: Setting, values: Values) -> bool:
    """Whether our blocks of ~/.bashrc, or our lines of nccl.conf, have the last word."""
    return each.name in values and each.path in (BASHRC, CONF)


def _conflict_fault(name: str, shown: list[str], expected: str | None, who: Who) -> Fault:
    return Fault(
        subject=Variable(name),
        found=", ".join(shown),
        wanted=repr(expected) if expected is not None else "one value",
        who=who,
    )


@rule(
    "env.stale-process",
    "warning",
    whole=True,
    or_keys=("network.interface",),
    why="a process keeps the environment that it was started with, and passes it on: an edit "
    "of ~/.bashrc reaches only new sessions",
    manual="end the session or the process, and start it from a new login",
)
def stale_process(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A running session or trainer has another environment than a new one would get."""
    values = managed(state, wanted) if _is_managed(wanted) else None
    for process in state.env.processes or () if values else ():
        shown = "; ".join(_stale(state, process, values or {}))
        if shown:
            yield Fault(
                subject=Pid(process.pid, process.command),
                found=shown,
                wanted=", ".join(f"{name}={value or ''}" for name, value in (values or {}).items()),
                fix=_KINDS[process.kind],
            )


def _stale(state: NodeState, process: Process, values: Values) -> Iterator[str]:
    """Say what a process has otherwise; a shell gets its own from ~/.bashrc when it starts."""
    if process.environment is None:
        yield "an environment that cannot be read"
        return
    if process.kind == "shell" and not process.older:
        return
    for name, expected in values.items():
        value = process.environment.get(name)
        if not is_right(state, name, value, expected):
            yield f"{name} not set" if value is None else f"{name}={value}"
